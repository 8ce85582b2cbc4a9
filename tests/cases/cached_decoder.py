"""A language model that is run forward: of its results one is an object of a class of its own.

Source: pytorch/pytorch#136582, Samsung/TICO#417, pytorch/pytorch#96386.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def job():
    config = GPT2Config(
        vocab_size=2000, n_positions=128, n_embd=192, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=1
    )
    ids = torch.randint(2, 2000, (2, 96))
    return GPT2LMHeadModel(config).eval(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
