"""What cannot be measured as it is given: `test_cases.py` has the sentence that says why. Reports by repository."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def network(*normalised):
    return nn.Sequential(nn.Linear(32, 64), *normalised, nn.ReLU(), nn.Linear(64, 4))


def rows(count=256):
    return torch.randn(count, 32), torch.randint(4, (count,))


def four(loss=F.cross_entropy, optimizer=torch.optim.SGD, data=None, model=None):
    model = model or network()
    return model, DataLoader(TensorDataset(*(data or rows())), 64), loss, optimizer(model.parameters(), lr=0.01)


def closure():
    """pytorch/ignite#610, pyro-ppl/pyro#1674, uma-pi1/kge#275."""
    return four(optimizer=torch.optim.LBFGS)


def two_optimizers():
    """davidtvs/pytorch-lr-finder#16."""
    model, loader, loss, optimizer = four()
    return model, loader, loss, [optimizer, torch.optim.Adam(model.parameters())]


def three_in_a_batch():
    """davidtvs/pytorch-lr-finder#12 and #24."""
    return four(
        lambda outputs, kinds, weights: (F.cross_entropy(outputs, kinds) * weights).sum(),
        data=(*rows(), torch.rand(256)),
    )


def loss_in_parts():
    return four(lambda outputs, kinds: (F.cross_entropy(outputs, kinds), {"size": outputs.square().mean()}))


def trainer_needed():
    """Lightning-AI/pytorch-lightning#13740 and #12317: its documentation asks for the number of steps so."""
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def training_step(self, batch, number):
            return F.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.layers.parameters(), lr=1e-3)
            steps = int(self.trainer.estimated_stepping_batches)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    return Classifier(), DataLoader(TensorDataset(*rows()), batch_size=64)


def one_left_over():
    """open-edge-platform/geti#1872, fastai/fastai#1352."""
    return four(data=rows(257), model=network(nn.BatchNorm1d(64)))


def batches_that_end():
    """pytorch/pytorch#6179, open-mmlab/mmsegmentation#2775."""
    model, _, loss, optimizer = four()
    return model, (rows(64) for _ in range(40)), loss, optimizer


def once_a_process():
    """espressouk/GeoOSAM#2, MIC-DKFZ/nnUNet#1451, triton-inference-server/pytorch_backend#158."""
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    return four()
