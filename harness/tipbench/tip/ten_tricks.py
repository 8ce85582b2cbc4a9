"""What blogs pass on as ten tricks for faster training, sentence by sentence in our words, and which pair tries it."""

from tipbench.tip.pair import Claim
from tipbench.tip.sentence import Sentence

TEN_TRICKS = (
    Sentence("B1", "A one-cycle rate trains in fewer steps.", ("one-cycle.DigitsTraining",), claim=Claim.FEWER_STEPS),
    Sentence(
        "B1",
        "The rate rises in the first half and falls in the second.",
        untried="not so: torch's OneCycleLR rises over 30 % of the steps",
    ),
    Sentence("B2", "Larger batches process more samples a second.", ("batch-size.Gradients[batch]",)),
    Sentence(
        "B2",
        "The largest batch that fits trains fastest.",
        ("batch-size.DigitsTraining[batch]",),
        claim=Claim.SOONER_AT_TARGET,
    ),
    Sentence(
        "B2",
        "Another batch wants another learning rate; twice the batch, twice the rate.",
        untried="each batch has a rate of its own, tuned alike; the rule itself is not tried",
    ),
    Sentence(
        "B2",
        "Large batches may generalise worse.",
        untried="the scores after as many epochs are shown beside batch-size, and not judged",
    ),
    Sentence(
        "B3",
        "Load with several workers.",
        ("async-loading.Decoding", "async-loading.TrainingFromFiles", "async-loading.TrainingFromStorage"),
    ),
    Sentence(
        "B3",
        "Take two to four workers a core.",
        ("async-loading.TrainingFromFiles[num_workers]", "async-loading.TrainingFromStorage[num_workers]"),
    ),
    Sentence("B3", "Pin the memory of batches.", ("pin-memory.Copies", "pin-memory.TrainingFromFiles")),
    Sentence("B4", "Mixed precision is faster.", ("amp.Linear", "amp.ResNetTraining", "amp.GPTTraining")),
    Sentence("B4", "It needs less memory.", ("amp.ResNetTraining", "amp.GPTTraining"), claim=Claim.LEANER),
    Sentence(
        "B4", "It costs no accuracy.", untried="the error of a step is measured, not the accuracy after a training"
    ),
    Sentence("B4", "What it frees is good for a larger batch.", ("amp.LargerBatch",)),
    Sentence(
        "B5",
        "Turn on `cudnn.benchmark` where inputs keep their size.",
        ("cudnn-benchmark.SameShape", "cudnn-benchmark.ResNetTraining"),
    ),
    Sentence("B5", "Leave it off where they change.", ("cudnn-benchmark.ChangingShapes",)),
    Sentence("B6", "Use DistributedDataParallel instead of DataParallel.", ("ddp-not-dp.GPTTraining",)),
    Sentence(
        "B7",
        "Accumulated gradients act as a larger batch, in the memory of a small one.",
        ("grad-accumulation.GPTTraining",),
        claim=Claim.LEANER,
    ),
    Sentence("B8", "Clipping keeps gradients from exploding.", ("grad-clipping.LSTMTraining",), claim=Claim.STEADIER),
    Sentence("B8", "So it trains in less time.", ("grad-clipping.LSTMTraining",)),
    Sentence(
        "B9",
        "Turn off the bias right before a batch norm.",
        ("no-bias-before-bn.ConvolutionAndNorm", "no-bias-before-bn.VGGTraining"),
    ),
    Sentence(
        "B10",
        "Avoid `.cpu()`, `.cuda()` and `.item()` in the loop.",
        ("avoid-sync.RoundTrip", "avoid-sync.RunningSum", "avoid-sync.GPTTraining"),
    ),
    Sentence(
        "B10",
        "Use `as_tensor` or `from_numpy` instead of `torch.tensor`.",
        ("no-copies.LargeArray", "no-copies.SmallNetworkTraining", "no-copies.SmallNetworkInference"),
    ),
    Sentence(
        "B10",
        "Let copies to the GPU run beside the computation.",
        ("pin-memory.TrainingFromFiles", "prefetch.CopyingAhead"),
    ),
)
"""In the order of the tricks, B1 to B10."""
