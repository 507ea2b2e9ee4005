"""Training as the program does it: the same steps with the same bits as `gradus train CONFIG`.

    trainer = gradus.train.Trainer("configs/mlp/digits.json")     # or the config as a dict
    for epoch in trainer.run(): print(epoch)
"""
from ._gradus import Network, Trainer


def _run(self):
    """Trains all epochs; after each gives a dict of its number, mean loss, test loss and accuracy."""
    while self.epoch < self.epochs:
        while not self.epoch_done:
            self.step()
        epoch = self.epoch + 1
        loss = self.finish_epoch()
        test_loss, accuracy = self.test()
        yield {"epoch": epoch, "loss": loss, "test_loss": test_loss, "test_accuracy": accuracy}


Trainer.run = _run
__all__ = ["Network", "Trainer"]
