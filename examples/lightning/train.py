"""A training script as Lightning's users have it: a module, a Trainer, a ModelCheckpoint; nothing of armada in it."""

import argparse

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--max-steps", type=int, default=60)
parser.add_argument("--save-steps", type=int, default=20)
parser.add_argument("--learning-rate", type=float, default=0.02)
parser.add_argument("--ckpt-path", help="continue from this checkpoint")


class Curve(lightning.LightningModule):
    """A small network that learns a sine."""

    def __init__(self, learning_rate: float) -> None:
        super().__init__()
        self.save_hyperparameters()  # so that load_from_checkpoint needs no arguments
        self.learning_rate = learning_rate
        self.network = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.network(inputs)

    def training_step(self, batch: list) -> torch.Tensor:
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self(inputs), targets)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list) -> None:
        inputs, targets = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self(inputs), targets), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


def main() -> None:
    options = parser.parse_args()
    lightning.seed_everything(5)
    inputs = torch.rand(512, 1) * 6 - 3
    data = TensorDataset(inputs, inputs.sin())
    train, held_out = torch.utils.data.random_split(data, [384, 128])
    trainer = lightning.Trainer(
        max_steps=options.max_steps,
        log_every_n_steps=1,
        val_check_interval=options.save_steps,
        check_val_every_n_epoch=None,
        callbacks=[ModelCheckpoint(every_n_train_steps=options.save_steps, save_top_k=-1)],
    )
    trainer.fit(
        Curve(options.learning_rate),
        DataLoader(train, batch_size=16, shuffle=True),
        DataLoader(held_out, batch_size=128),
        ckpt_path=options.ckpt_path,
    )


if __name__ == "__main__":
    main()
