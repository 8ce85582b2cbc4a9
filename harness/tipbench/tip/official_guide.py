"""What PyTorch's Performance Tuning Guide says, sentence by sentence in our words, and which pair tries it."""

from tipbench.tip.pair import Claim
from tipbench.tip.sentence import Sentence

OFFICIAL_GUIDE = (
    Sentence(
        "A1.1",
        "Workers of the DataLoader load and augment while the model trains.",
        ("async-loading.Decoding", "async-loading.TrainingFromFiles"),
    ),
    Sentence(
        "A1.1",
        "The number of workers is to be tuned to the work, the CPU, the GPU and where the data lies.",
        ("async-loading.TrainingFromFiles[num_workers]", "async-loading.TrainingFromStorage[num_workers]"),
    ),
    Sentence("A1.1", "Copies to a GPU are faster from pinned memory.", ("pin-memory.Copies",)),
    Sentence("A1.1", "They also run beside the computation.", ("pin-memory.TrainingFromFiles",)),
    Sentence(
        "A1.2",
        "Without gradients, inference is faster.",
        ("no-grad.SmallOperations", "no-grad.ResNetInference", "no-grad.TransformerEncoderInference"),
    ),
    Sentence(
        "A1.2",
        "Without gradients, inference needs less memory.",
        ("no-grad.ResNetInference", "no-grad.TransformerEncoderInference"),
        claim=Claim.LEANER,
    ),
    Sentence("A1.2", "`no_grad` works as a decorator too.", untried="the same switch, written in another way"),
    Sentence(
        "A1.3",
        "A convolution right before a batch norm needs no bias.",
        ("no-bias-before-bn.ConvolutionAndNorm", "no-bias-before-bn.VGGTraining"),
    ),
    Sentence(
        "A1.3",
        "The same holds in one and in three dimensions, and before other norms over the same dimension.",
        untried="the same addition is left out, of tensors of other shapes",
    ),
    Sentence(
        "A1.3",
        "torchvision's models do without that bias already.",
        ("no-bias-before-bn.VGGTraining",),
        untried="not true of its VGGs with batch norm: that is the job",
    ),
    Sentence(
        "A1.4",
        "Set `parameter.grad = None` instead of calling `zero_grad()`.",
        ("grad-none.SmallParameters[by_hand]", "grad-none.GPTTraining[by_hand]"),
    ),
    Sentence(
        "A1.4",
        "Or call `zero_grad(set_to_none=True)`, the default today.",
        ("grad-none.SmallParameters", "grad-none.GPTTraining", "grad-none.ResNetTraining"),
    ),
    Sentence(
        "A1.4",
        "A gradient of None has another effect than one of zeros.",
        untried="no job has a parameter without a gradient: the sides would do other work",
    ),
    Sentence(
        "A1.5",
        "One fused kernel reads and writes memory once for several pointwise operations.",
        ("fuse-pointwise.Gelu",),
    ),
    Sentence("A1.5", "That pays in activation functions.", ("fuse-pointwise.TransformerTraining",)),
    Sentence(
        "A1.5",
        "It pays in optimizers.",
        ("compiled-optimizer.ManyParameters", "compiled-optimizer.GPTTraining", "fused-optimizer.GPTTraining"),
    ),
    Sentence("A1.5", "It pays in recurrent cells of one's own.", untried="no job here has one"),
    Sentence(
        "A1.5",
        "`torch.compile` fuses reductions too, and more.",
        ("compile-modes.ConvolutionBlock", "compile-modes.ResNetInference", "compile-modes.GPTTraining"),
    ),
    Sentence(
        "A1.6",
        "`channels_last` makes convolutional networks faster.",
        ("channels-last.Convolution", "channels-last.ResNetTraining", "channels-last.ResNetInference"),
    ),
    Sentence("A1.6", "It is meant to be used with mixed precision.", ("channels-last.ResNetTrainingInBfloat16",)),
    Sentence(
        "A1.6",
        "It works for the usual vision models, such as ResNet-50 and SSD.",
        ("channels-last.MobileNetInference",),
        untried="no model for detection: it needs labelled boxes",
    ),
    Sentence(
        "A1.7",
        "Checkpointing recomputes what it does not store: less memory.",
        ("checkpointing.GPTTraining", "checkpointing.VisionTransformerTraining"),
        claim=Claim.LEANER,
    ),
    Sentence(
        "A1.7",
        "What it frees lets the batch grow, which can use the hardware better.",
        untried="the batch is the same on both sides: only equal work is compared",
    ),
    Sentence(
        "A1.7",
        "Best are large outputs that cost little: ReLU, sigmoid, tanh, up- and downsampling.",
        ("checkpointing.CheapLayers",),
        claim=Claim.LEANER,
    ),
    Sentence(
        "A1.7",
        "So are products of a matrix and a vector with few additions.",
        untried="no job here has them where memory is short",
    ),
    Sentence(
        "A1.8",
        "Anomaly detection is for debugging: switch it off.",
        ("no-debug-apis.AnomalyMode", "no-debug-apis.ResNetTraining"),
    ),
    Sentence("A1.8", "The profiler is too.", ("no-debug-apis.Profiler",), untried="`emit_nvtx` has no pair"),
    Sentence(
        "A1.8",
        "`gradcheck` and `gradgradcheck` are too.",
        untried="tests call them; they belong to no training loop",
    ),
    Sentence(
        "A2.1",
        "Bind a process to one NUMA node.",
        ("numa.MemorySweep", "numa.ResNetInference", "numa.EncoderInference"),
    ),
    Sentence(
        "A2.1",
        "Run one instance a socket for inference.",
        ("openmp-threads.TwoInstances", "openmp-threads.TwoEncoders"),
        untried="tried within one socket, by threads",
    ),
    Sentence(
        "A2.1",
        "Train with one process a socket.",
        ("cpu-ddp.GPTTraining",),
        untried="tried within one socket, by cores",
    ),
    Sentence(
        "A2.2",
        "`OMP_NUM_THREADS` is the easiest switch.",
        ("openmp-threads.MatrixProduct", "openmp-threads.SmallOperations", "openmp-threads.TwoInstances"),
    ),
    Sentence("A2.2", "Bind threads to cores with `OMP_PROC_BIND=CLOSE`.", ("openmp-threads.BoundThreads",)),
    Sentence("A2.2", "Or bind them with `GOMP_CPU_AFFINITY`.", ("openmp-threads.BoundThreads[gnu_affinity]",)),
    Sentence(
        "A2.2",
        "Set `OMP_SCHEDULE=STATIC`.",
        untried="it is for loops compiled with `schedule(runtime)`, and PyTorch has none",
    ),
    Sentence(
        "A2.3",
        "Intel's OpenMP is sometimes faster than GNU's.",
        ("libiomp.SmallOperations", "libiomp.ResNetInference", "libiomp.EncoderInference"),
    ),
    Sentence("A2.3", "`KMP_AFFINITY` binds its threads.", ("libiomp.SmallOperations[bound]",)),
    Sentence(
        "A2.3",
        "`KMP_BLOCKTIME` of 0 or 1 ms does well in most cases.",
        ("libiomp.SmallOperations[blocktime]", "libiomp.ResNetInference[blocktime]"),
    ),
    Sentence(
        "A2.4",
        "jemalloc reuses memory better than malloc does.",
        ("allocator.Temporaries", "allocator.ResNet50Inference", "allocator.TransformerEpoch"),
    ),
    Sentence(
        "A2.4",
        "So does TCMalloc.",
        (
            "allocator.Temporaries[tcmalloc]",
            "allocator.ResNet50Inference[tcmalloc]",
            "allocator.TransformerEpoch[tcmalloc]",
        ),
    ),
    Sentence(
        "A2.5",
        "oneDNN Graph fuses convolutions and matrix products with what follows them.",
        ("onednn-graph.ConvolutionBlock", "onednn-graph.ResNetInference"),
    ),
    Sentence("A2.5", "The guide's example is ResNet-50.", ("onednn-graph.ResNet50Inference",)),
    Sentence("A2.5", "bfloat16 pays where the processor has AVX512_BF16.", ("onednn-graph.ResNet50InBfloat16",)),
    Sentence(
        "A2.5", "Do not call `optimize_for_inference` as well.", untried="it and TorchScript itself are deprecated"
    ),
    Sentence(
        "A2.6",
        "Small or memory-bound models train well on CPUs, in several processes.",
        ("cpu-ddp.LargeLinear", "cpu-ddp.GPTTraining"),
    ),
    Sentence("A2.6", "`torch-ccl` makes their communication faster.", untried="it ended with torch 2.8; gloo is tried"),
    Sentence(
        "A3.1",
        'Set the precision of float32 matrix products to "high".',
        ("tensor-cores.MatrixProduct", "tensor-cores.GPTTraining"),
    ),
    Sentence("A3.1", 'Or to "medium".', untried='torch computes it as "high" on a GPU'),
    Sentence("A3.1", "Convolutions use tensor cores too.", ("tensor-cores.Convolution",), untried="by default already"),
    Sentence("A3.1", "Make sizes multiples of 8.", ("pad-sizes.Product",)),
    Sentence("A3.1", "Pad a vocabulary.", ("pad-sizes.GPTTraining",)),
    Sentence(
        "A3.2",
        'CUDA graphs spare the launches of kernels: `mode="reduce-overhead"`.',
        ("cuda-graphs.TinyKernels", "cuda-graphs.SmallBatchTraining", "cuda-graphs.SmallBatchInference"),
    ),
    Sentence("A3.2", 'So does `mode="max-autotune"`.', ("cuda-graphs.TinyKernels[max_autotune]",)),
    Sentence("A3.2", "They may need more memory.", ("cuda-graphs.SmallBatchTraining",), claim=Claim.LEANER),
    Sentence(
        "A3.3",
        "cuDNN's auto-tuner finds the fastest convolution for a size.",
        ("cudnn-benchmark.SameShape", "cudnn-benchmark.ResNetTraining"),
    ),
    Sentence("A3.3", "Where sizes change, it costs more than it saves.", ("cudnn-benchmark.ChangingShapes",)),
    Sentence("A3.3", "Its choices may differ from run to run.", untried="no gain is claimed"),
    Sentence(
        "A3.4",
        "Avoid `print(tensor)` and `.item()`.",
        ("avoid-sync.RunningSum", "avoid-sync.GPTTraining", "avoid-sync.ResNetTraining"),
    ),
    Sentence("A3.4", "Avoid `.cuda()`, `.cpu()` and `.to(device)`.", ("avoid-sync.RoundTrip",)),
    Sentence("A3.4", "Avoid `.nonzero()`.", ("avoid-sync.Mask",)),
    Sentence(
        "A3.4",
        "Avoid control flow that depends on a tensor.",
        ("avoid-sync.RunningSum",),
        untried="`if` reads its tensor as `.item()` does",
    ),
    Sentence("A3.5", "Create a tensor on its device: `torch.full`, `torch.zeros`.", ("create-on-device.Constants",)),
    Sentence("A3.5", "The same holds for all functions that take a device.", ("create-on-device.GPTTraining",)),
    Sentence(
        "A3.5",
        "The guide's example is `torch.rand`.",
        untried="each device draws other numbers, so the sides could not be compared",
    ),
    Sentence(
        "A3.6", "Mixed precision is up to three times as fast.", ("amp.Linear", "amp.ResNetTraining", "amp.GPTTraining")
    ),
    Sentence(
        "A3.6",
        "The guide's examples use float16 and scale the loss.",
        ("amp.ResNetTraining[float16]", "amp.GPTTraining[float16]"),
    ),
    Sentence(
        "A3.7",
        "Growing inputs make the allocator give memory back and ask for more: take it all first.",
        ("preallocate.GrowingTensors", "preallocate.LSTMEpoch"),
    ),
    Sentence(
        "A3.7",
        "That also avoids errors for want of memory.",
        untried="the errors need a full card; the pairs count the bytes reserved",
    ),
    Sentence("A4.1", "DistributedDataParallel is much faster than DataParallel.", ("ddp-not-dp.GPTTraining",)),
    Sentence("A4.1", "It scales better to more GPUs.", untried="two GPUs are tried"),
    Sentence(
        "A4.2",
        "Leave out all but the last all-reduce while accumulating gradients.",
        ("no-sync.LargeLinear", "no-sync.GPTTraining"),
    ),
    Sentence(
        "A4.3",
        "With `find_unused_parameters=True`, construct layers in the order of their use.",
        ("layer-order.DeepMLP", "layer-order.GPTTraining"),
    ),
    Sentence(
        "A4.3",
        "Without the flag the order does not matter.",
        ("layer-order.DeepMLP[without_the_flag]", "layer-order.GPTTraining[without_the_flag]"),
    ),
    Sentence(
        "G4.4",
        "Put samples of similar length into one batch, or sort the dataset.",
        ("length-bucketing.PaddingShare", "length-bucketing.LSTMEpoch", "length-bucketing.TransformerEpoch"),
    ),
    Sentence(
        "G4.4",
        "Or make batches of about as many tokens.",
        ("length-bucketing.LSTMEpoch[constant_tokens]", "length-bucketing.TransformerEpoch[constant_tokens]"),
    ),
    Sentence("G4.4", "All devices wait for the one with the longest sequence.", untried="tried in one process"),
)
"""In the guide's order, chapters A1 to A4 and G."""
