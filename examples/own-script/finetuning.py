"""A fine-tuning script as people have it: transformers' Trainer, options by argparse, nothing of armada in it."""

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument(
    "--model-path", default="Qwen/Qwen2.5-0.5B-Instruct", help="`tiny` is a random model for a first try"
)
parser.add_argument("--train-dataset", action="append", required=True)
parser.add_argument("--output-dir", default="out")
parser.add_argument("--max-steps", type=int, default=100)
parser.add_argument("--n-gpus", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--per-device-train-batch-size", type=int, default=1)
parser.add_argument("--max-seq-len", type=int, default=512)
parser.add_argument("--learning-rate", type=float, default=5e-5)
parser.add_argument("--lora-r", type=int, default=0, help="0: train all weights")
parser.add_argument("--save-steps", type=int, default=100)
parser.add_argument("--logging-steps", type=int, default=10)
parser.add_argument("--resume-from-checkpoint")
options = parser.parse_args()

torch.manual_seed(5)
if options.model_path == "tiny":
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=256, **shape))
    encode = lambda text: list(text.encode())  # noqa: E731
else:
    model = AutoModelForCausalLM.from_pretrained(options.model_path)
    encode = AutoTokenizer.from_pretrained(options.model_path).encode
if options.lora_r:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=options.lora_r, target_modules="all-linear", task_type="CAUSAL_LM"))

rows = [json.loads(line)["text"] for path in options.train_dataset for line in Path(path).read_text().splitlines()]


def collate(texts: list) -> dict:
    tokens = [torch.tensor(encode(text)[: options.max_seq_len]) for text in texts]
    inputs = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
    seen = torch.nn.utils.rnn.pad_sequence([torch.ones_like(each) for each in tokens], batch_first=True)
    return {"input_ids": inputs, "attention_mask": seen, "labels": inputs.masked_fill(seen == 0, -100)}


arguments = TrainingArguments(
    output_dir=options.output_dir,
    max_steps=options.max_steps,
    per_device_train_batch_size=options.per_device_train_batch_size,
    gradient_accumulation_steps=max(1, options.batch_size // (options.per_device_train_batch_size * options.n_gpus)),
    learning_rate=options.learning_rate,
    warmup_steps=options.max_steps // 50,
    save_steps=options.save_steps,
    save_total_limit=2,
    logging_steps=options.logging_steps,
    report_to="none",
    disable_tqdm=True,
    remove_unused_columns=False,
)
trainer = Trainer(model, arguments, train_dataset=rows, data_collator=collate)
trainer.train(resume_from_checkpoint=options.resume_from_checkpoint)
