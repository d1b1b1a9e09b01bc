"""Writes a tiny Llama of random weights as GGUF: llama.cpp loads it in no time, and a grammar makes its answers valid.

Format: the GGUF specification, version 3 (ggml project). Tokens are the 256 bytes, written as GPT-2 does.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

WIDTH, HIDDEN, HEADS, CONTEXT, ALIGNMENT = 32, 64, 2, 8192, 32
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5


def write_tiny_model(path: Path) -> Path:
    # GPT-2 shows a byte that is no printable character as one from U+0100 on; a vocabulary needs one merge at least.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + n) for n in range(len(hidden))]
    tokens = ["<s>", "</s>", *letters, "th"]
    kinds = [3, 3] + [1] * (len(letters) + 1)  # control, normal
    metadata = [
        _text("general.architecture", "llama"),
        _number("llama.block_count", 1),
        _number("llama.context_length", CONTEXT),
        _number("llama.embedding_length", WIDTH),
        _number("llama.feed_forward_length", HIDDEN),
        _number("llama.attention.head_count", HEADS),
        _number("llama.rope.dimension_count", WIDTH // HEADS),
        _string("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", FLOAT32, 1e-5),
        _text("tokenizer.ggml.model", "gpt2"),
        _text("tokenizer.ggml.pre", "default"),
        _array("tokenizer.ggml.merges", STRING, [_string("t h")]),
        _number("tokenizer.ggml.bos_token_id", 0),
        _number("tokenizer.ggml.eos_token_id", 1),
        _array("tokenizer.ggml.tokens", STRING, [_string(token) for token in tokens]),
        _array("tokenizer.ggml.token_type", INT32, [struct.pack("<i", kind) for kind in kinds]),
    ]
    shapes = {
        "token_embd.weight": (WIDTH, len(tokens)),
        "output_norm.weight": (WIDTH,),
        "output.weight": (WIDTH, len(tokens)),
        "blk.0.attn_norm.weight": (WIDTH,),
        "blk.0.attn_q.weight": (WIDTH, WIDTH),
        "blk.0.attn_k.weight": (WIDTH, WIDTH),
        "blk.0.attn_v.weight": (WIDTH, WIDTH),
        "blk.0.attn_output.weight": (WIDTH, WIDTH),
        "blk.0.ffn_norm.weight": (WIDTH,),
        "blk.0.ffn_gate.weight": (WIDTH, HIDDEN),
        "blk.0.ffn_up.weight": (WIDTH, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, WIDTH),
    }
    rng = random.Random(0)
    infos, data = b"", b""
    for name, shape in shapes.items():
        infos += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        data += struct.pack(f"<{count}f", *(rng.gauss(0, 0.1) for _ in range(count)))
        data += b"\0" * (-len(data) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata)) + b"".join(metadata) + infos
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
    return path


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _text(key: str, value: str) -> bytes:
    return _string(key) + struct.pack("<I", STRING) + _string(value)


def _number(key: str, value: int) -> bytes:
    return _string(key) + struct.pack("<II", UINT32, value)


def _array(key: str, kind: int, items: list[bytes]) -> bytes:
    return _string(key) + struct.pack("<IIQ", ARRAY, kind, len(items)) + b"".join(items)
