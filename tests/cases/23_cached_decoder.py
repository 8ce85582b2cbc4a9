"""23: a language model of transformers, run forward: the commonest inference job there is.

What it is: (model, batch) with a small GPT-2 of random weights. What it returns is a mapping that holds `logits` and,
as `use_cache` is on by default, `past_key_values`: an object of a class of its own, neither tensor nor list.

A right tool: measures it, and compares the logits; what it cannot look into it leaves out, and says so. no-grad is tried
first (nobody called it) and keeps the results. compile and regional-compile have 4 equal blocks.
Wrong: "its step returned nothing that can be compared".
`job_of_generate` is `model.generate` as a step: integers are compared exactly, or it says what it compared; bfloat16 may
give other words there, which is "other results", not noise.
Source: pytorch/pytorch#136582, Samsung/TICO#417, pytorch/pytorch#96386.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def model():
    torch.manual_seed(23)
    config = GPT2Config(
        vocab_size=2000, n_positions=128, n_embd=192, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=1
    )
    return GPT2LMHeadModel(config).eval()


def prompt(rows=2, length=96):
    ids = torch.randint(2, 2000, (rows, length), generator=torch.Generator().manual_seed(23))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def job():
    return model(), prompt()


def job_of_generate():
    decoder, asked = model(), prompt(1, 16)

    @torch.no_grad()
    def step():
        return decoder.generate(**asked, max_new_tokens=12, min_new_tokens=12, do_sample=False, pad_token_id=1)

    return step
