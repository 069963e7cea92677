"""Train the demo's tokenizer on the demo's own sentences: `python tools/gen_demo_tokenizer.py`.

Rarely needed, and not part of `make gen`: another tokenizer would make another demo of the same seed.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rolltrace.demo.task import SYSTEM, problems

PATH = Path(__file__).parents[1] / "src/rolltrace/demo/tokenizer.json"
SPECIAL = ["<|im_start|>", "<|im_end|>", "<call>", "</call>", "<answer>", "</answer>"]


def main() -> None:
    words = SYSTEM
    for special in SPECIAL:
        words = words.replace(special, " ")
    texts = [each.question for each in problems(50, seed=1)]
    texts += [words, "system\n", "user\n", "assistant\n", "tool\n", " verified so the result is cannot read"] * 20
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    PATH.write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
