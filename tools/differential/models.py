"""Draws a tiny model of a family, with the settings that its config.json may have, and a tokenizer."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (BertConfig, Gemma2Config, Gemma3TextConfig, GemmaConfig, GPT2Config, LlamaConfig, MistralConfig,
                          PreTrainedTokenizerFast, Qwen2Config, Qwen3Config, SmolLM3Config, T5Config)

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "gemma2", "gemma3", "gpt2", "bert", "t5", "t5")
WORDS = ("the a small old river bridge market train letter morning evening city garden winter engine report was were "
         "crosses sells leaves arrives reads writes finds keeps near under behind slowly early late quietly never "
         "naïve café 12 3.5 % of 2008 你好 don't").split()
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "[CLS]", "[SEP]")


def draw_tokenizer(dice, family):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=dice.random() < 0.3)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([" ".join(WORDS)] * 2, trainers.BpeTrainer(
        vocab_size=320, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    around = {"t5": "$A </s>", "bert": "[CLS] $A [SEP]"}.get(family, "<s> $A" if dice.random() < 0.5 else "$A")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[(t, tokenizer.token_to_id(t)) for t in SPECIAL])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
                                   unk_token="<unk>", cls_token="[CLS]", sep_token="[SEP]", model_max_length=10**6)


def draw_rope(dice):
    choice, theta = dice.choice, dice.choice((10000.0, 500000.0, 1234.0))
    return {"rope_theta": theta} | choice((
        {"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32, "beta_fast": 16.0,
         "beta_slow": 2.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0,
         "mscale_all_dim": 0.8}))


def draw_config(dice, family, task, vocabulary):
    choice, width = dice.choice, dice.choice((32, 48, 64))
    if family == "gpt2":
        return GPT2Config(
            vocab_size=vocabulary, n_embd=width, n_layer=choice((1, 2, 3)), n_head=4, n_positions=256,
            n_inner=choice((None, 100)), resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=1, eos_token_id=2,
            pad_token_id=0, scale_attn_by_inverse_layer_idx=dice.random() < 0.2, scale_attn_weights=dice.random() < 0.8,
            layer_norm_epsilon=choice((1e-5, 1e-3)), activation_function=choice(("gelu_new", "gelu", "relu")))
    if family == "bert":
        return BertConfig(
            vocab_size=vocabulary, hidden_size=width, num_hidden_layers=choice((1, 2)), num_attention_heads=4,
            intermediate_size=64, max_position_embeddings=256, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            pad_token_id=0, hidden_act=choice(("gelu", "relu")), layer_norm_eps=choice((1e-12, 1e-5)),
            type_vocab_size=choice((1, 2)))
    if family == "t5":
        return T5Config(
            vocab_size=vocabulary, d_model=width, d_kv=choice((8, 16)), d_ff=64, num_layers=choice((1, 2)),
            num_decoder_layers=choice((1, 2)), num_heads=4, dropout_rate=0.0, pad_token_id=0, eos_token_id=2,
            feed_forward_proj=choice(("relu", "gated-gelu", "gated-silu")), tie_word_embeddings=dice.random() < 0.5,
            decoder_start_token_id=0, relative_attention_num_buckets=choice((8, 32)),
            relative_attention_max_distance=choice((20, 128)), layer_norm_epsilon=choice((1e-6, 1e-4)))
    common = dict(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=choice((64, 100)), num_attention_heads=4,
        num_hidden_layers=choice((1, 2, 3)), num_key_value_heads=choice((1, 2, 4)), max_position_embeddings=256,
        bos_token_id=1, eos_token_id=2, pad_token_id=choice((0, 2)) if task == "causal_lm" else 0,
        rms_norm_eps=choice((1e-6, 1e-5)), attention_dropout=0.0, tie_word_embeddings=dice.random() < 0.5 or family.startswith("gemma"))
    if family in ("llama", "mistral", "qwen2", "qwen3", "smollm3") and dice.random() < 0.4:
        common["rope_parameters"] = draw_rope(dice)
    heads = dict(head_dim=choice((8, 16, 24)))
    return {
        "llama": lambda: LlamaConfig(**common, attention_bias=dice.random() < 0.3, mlp_bias=dice.random() < 0.3,
                                     hidden_act=choice(("silu", "gelu", "relu")), **(heads if dice.random() < 0.5 else {})),
        "mistral": lambda: MistralConfig(**common, sliding_window=choice((None, 4, 8, 16)), **heads),
        "qwen2": lambda: Qwen2Config(**common, use_sliding_window=dice.random() < 0.5, sliding_window=8,
                                     max_window_layers=choice((0, 1, 2))),
        "qwen3": lambda: Qwen3Config(**common, **heads, attention_bias=dice.random() < 0.3),
        "smollm3": lambda: SmolLM3Config(**common, no_rope_layer_interval=choice((1, 2, 4)), mlp_bias=dice.random() < 0.3,
                                         use_sliding_window=dice.random() < 0.5, sliding_window=8),
        "gemma": lambda: GemmaConfig(**common, **heads),
        "gemma2": lambda: Gemma2Config(**common, **heads, sliding_window=8, query_pre_attn_scalar=choice((16, 144)),
                                       attn_logit_softcapping=choice((50.0, None)),
                                       final_logit_softcapping=choice((30.0, None))),
        "gemma3": lambda: Gemma3TextConfig(**common, **heads, sliding_window=8)}[family]()


def widen(config):
    """Sizes in whole blocks of 4 bits, which trainer asks for: bitsandbytes' blocks can begin within a row."""
    sizes = {"gpt2": dict(n_embd=64, n_inner=None), "t5": dict(d_model=64, d_kv=16)}.get(
        config.model_type, dict(hidden_size=64, intermediate_size=64, head_dim=16))
    for name, value in sizes.items():
        setattr(config, name, value)
