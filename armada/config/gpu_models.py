"""What is known of GPUs that have no bundled profile: peak and compute capability by a part of their name.

The peak is dense, in 16 bits with 32-bit sums, in TFLOPS: what a training can reach. GeForce cards do half of what they do
with 16-bit sums. NVIDIA's data sheets name twice the figure for GPUs from Ampere on, with sparsity.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A kind of GPU.

    Attributes:
        part: Of the name that nvidia-smi prints.
        peak_tflops: Dense, in 16 bits with 32-bit sums.
        compute_capability: From developer.nvidia.com/cuda-gpus.
        source: Where the peak is from.
    """

    part: str
    peak_tflops: float
    compute_capability: float
    source: str


MODELS = (
    GpuModel("V100-SXM2", 125, 7.0, "V100 data sheet: tensor performance, SXM2"),
    GpuModel("V100-PCIE", 112, 7.0, "V100 data sheet: tensor performance, PCIe"),
    GpuModel("RTX 2080 Ti", 53.8, 7.5, "Turing white paper: FP16 with FP32 accumulate, reference card"),
    GpuModel("RTX 3090 Ti", 80, 8.6, "Ada white paper: FP16 with FP32 accumulate"),
    GpuModel("RTX 4090 D", 147.1, 8.9, "456 tensor cores × 64 FMA × 2 × 2.52 GHz"),
    GpuModel("A10G", 70, 8.6, "A10G data sheet: 70 for BFLOAT16, dense"),
    GpuModel("A10", 125, 8.6, "A10 data sheet: 125 for BFLOAT16, dense"),
    GpuModel("A30", 165, 8.0, "A30 data sheet: 165 for BFLOAT16, dense"),
    GpuModel("A40", 149.7, 8.6, "A40 data sheet: 149.7 for BFLOAT16, dense"),
    GpuModel("A100", 312, 8.0, "A100 data sheet: 312 for BFLOAT16, dense"),
    GpuModel("A800", 312, 8.0, "A800 data sheet: 312 for BFLOAT16, dense"),
    GpuModel("L4", 121, 8.9, "L4 data sheet: 242 for BFLOAT16 with sparsity"),
    GpuModel("L40", 181, 8.9, "L40 data sheet: 181.05 for BFLOAT16, dense"),
    GpuModel("RTX 6000 Ada Generation", 364.2, 8.9, "data sheet: 1457 for FP8 with sparsity, a quarter of it"),
    GpuModel("H100 NVL", 835, 9.0, "H100 data sheet: 1,671 for BFLOAT16 with sparsity, NVL"),
    GpuModel("H200 NVL", 835, 9.0, "H200 data sheet: 1,671 for BFLOAT16 with sparsity, NVL"),
    GpuModel("GH200", 989, 9.0, "GH200 data sheet: 1,979 for BFLOAT16 with sparsity"),
)


def find_model(name: str) -> GpuModel | None:
    """Return what is known of a GPU by the name that nvidia-smi prints; the longest part that fits is the right one."""
    # Whole words, with the hyphens of server boards as spaces: `L4` is neither `L40` nor `L40S`.
    words = f" {' '.join(name.replace('-', ' ').lower().split())} "
    if " laptop " in words or " max q " in words:  # other chips under the same name
        return None
    found = [model for model in MODELS if f" {model.part.replace('-', ' ').lower()} " in words]
    return max(found, key=lambda model: len(model.part), default=None)
