"""A text classifier under transformers.Trainer; the model is made from a configuration, nothing is downloaded."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

WORDS, LENGTH = 4096, 128


class Sentences(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(WORDS, (LENGTH,), generator=generator)
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.sum() % 2}


def job(**more):
    config = BertConfig(
        vocab_size=WORDS, hidden_size=192, num_hidden_layers=4, num_attention_heads=4, intermediate_size=768
    )
    arguments = TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=4, report_to=[], use_cpu=True, **more)
    return Trainer(BertForSequenceClassification(config), arguments, train_dataset=Sentences())
