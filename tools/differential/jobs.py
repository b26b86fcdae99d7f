"""Draws jobs as people write them: a model, a tokenizer, records, TrainingArguments and a PEFT configuration."""

import random

import models

LINEAR = {"gpt2": ("c_attn", "c_proj", "c_fc"), "bert": ("query", "key", "value", "dense")}
OF_LLAMA = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
EMBEDDINGS = {"gpt2": "wte", "t5": "shared"}
PEFT_TASKS = {"causal_lm": "CAUSAL_LM", "seq2seq_lm": "SEQ_2_SEQ_LM", "sequence_classification": "SEQ_CLS"}

# How trainer spreads the job over ranks; the peer always trains on one.
STRATEGIES = (
    {"distributed_type": "MULTI_CPU", "num_processes": 2}, {"distributed_type": "MULTI_CPU", "num_processes": 3},
    {"distributed_type": "FSDP", "num_processes": 2},
    {"distributed_type": "FSDP", "num_processes": 3, "fsdp_config": {"fsdp_version": 2}},
    {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {"fsdp_sharding_strategy": "SHARD_GRAD_OP"}},
    {"distributed_type": "FSDP", "num_processes": 4, "fsdp_config": {"fsdp_sharding_strategy": "HYBRID_SHARD"}},
    {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {
        "fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 3000}},
    {"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": {"zero_stage": 1}},
    {"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": {"zero_stage": 3}},
    {"distributed_type": "MEGATRON_LM", "num_processes": 2, "megatron_lm_config": {"megatron_lm_tp_degree": 2}},
    {"distributed_type": "MEGATRON_LM", "num_processes": 4, "megatron_lm_config": {
        "megatron_lm_tp_degree": 2, "megatron_lm_sequence_parallelism": True}},
    {"distributed_type": "MEGATRON_LM", "num_processes": 2, "megatron_lm_config": {
        "megatron_lm_pp_degree": 2, "megatron_lm_num_micro_batches": 1}})


class Job:
    """Everything follows from the seed."""

    def __init__(self, seed):
        dice = self.dice = random.Random(seed)
        self.seed, self.family = seed, dice.choice(models.FAMILIES)
        self.task = {"t5": "seq2seq_lm", "bert": "sequence_classification"}.get(
            self.family, dice.choice(("causal_lm", "causal_lm", "causal_lm", "sequence_classification")))
        self.tokenizer = models.draw_tokenizer(dice, self.family)
        self.config = models.draw_config(dice, self.family, self.task, len(self.tokenizer))
        self.max_length, self.max_target_length = dice.choice((64, 64, 64, 10)), dice.choice((32, 32, 4))
        self.draw_records()
        self.strategy = dice.choice(STRATEGIES) if dice.random() < 0.5 else {"distributed_type": "NO"}
        self.arguments = self.draw_arguments()
        self.peft = self.draw_peft() if dice.random() < 0.7 else None
        # Otherwise the adapter is the peer's, with values that change the output.
        self.pasted = self.peft is not None and (dice.random() < 0.25 or self.kind == "P_TUNING")
        if self.kind in ("PROMPT_TUNING", "P_TUNING") and self.task == "sequence_classification":
            # Behind a learned prompt, transformers classifies by the last token of a row, which is padding in a batch.
            self.arguments["per_device_train_batch_size"] = 1
            self.arguments.pop("eval_strategy", None)
            self.arguments.pop("eval_on_start", None)

        self.quantization = self.draw_quantization()
        if self.quantization:
            models.widen(self.config)

    @property
    def kind(self):
        return self.peft.get("peft_type", "LORA") if self.peft else None

    def maybe(self, probability):
        return self.dice.random() < probability

    def sentence(self, least, most):
        return " ".join(self.dice.choice(models.WORDS) for _ in range(self.dice.randint(least, most)))

    def draw_records(self):
        count, classes = self.dice.randint(5, 23), self.dice.choice((2, 3, 4))
        records = [{"text": self.sentence(1, 14)} for _ in range(count + 5)]
        for i, record in enumerate(records):
            if self.task == "seq2seq_lm":
                record["label"] = self.sentence(1, 5)
            elif self.task == "sequence_classification":
                record["label"] = i if i < classes else self.dice.randrange(classes)
        if self.task == "sequence_classification":
            self.config.num_labels = classes
        self.train, self.held_out = records[:count], records[count:]

    def draw_schedule(self):
        name, more = self.dice.choice((
            ("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.5}), ("constant", {}), ("constant_with_warmup", {}),
            ("cosine_with_restarts", {}), ("cosine_with_restarts", {"num_cycles": 2}),
            ("cosine_with_min_lr", {"min_lr": 1e-4}), ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
            ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}),
            ("cosine_warmup_with_min_lr", {"min_lr": 1e-4, "warmup_lr_rate": 0.1}),
            ("polynomial", {}), ("polynomial", {"power": 2.0}), ("polynomial", {"lr_end": 1e-5}),
            ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 5}),
            ("warmup_stable_decay", {"num_decay_steps": 2}),
            ("warmup_stable_decay", {"num_decay_steps": 3, "num_stable_steps": 2}),
            ("warmup_stable_decay", {"num_decay_steps": 2, "min_lr_ratio": 0.1, "decay_type": "cosine"}),
            ("warmup_stable_decay", {"num_decay_steps": 2, "warmup_type": "cosine"})))
        return {"lr_scheduler_type": name} | ({"lr_scheduler_kwargs": more} if more else {})

    def draw_arguments(self):
        choice = self.dice.choice
        all_of = {"per_device_train_batch_size": choice((1, 2, 3, 4, 5)),
                  "gradient_accumulation_steps": choice((1, 1, 2, 3, 4)),
                  "learning_rate": choice((1e-2, 3e-3, 1e-3, 5e-4)), "seed": self.dice.randint(0, 1000),
                  "train_sampling_strategy": "sequential"} | self.draw_schedule()
        all_of |= choice(({"num_train_epochs": choice((1, 2, 3, 0.5, 1.5, 2.3))}, {"max_steps": choice((1, 3, 5, 9, 20))}))
        all_of["optim"] = optimizer = choice((
            "adamw_torch", "adamw_torch", "adamw_torch_fused", "sgd", "adafactor", "rmsprop", "adagrad", "lion_32bit",
            "adamw_bnb_8bit", "paged_adamw_32bit"))
        if "adamw" in optimizer and self.maybe(0.4):
            all_of |= {"adam_beta1": choice((0.8, 0.95)), "adam_beta2": choice((0.95, 0.99)),
                       "adam_epsilon": choice((1e-6, 1e-8))}
        if optimizer in ("rmsprop", "adagrad", "lion_32bit"):  # a first step is as long as the rate
            all_of["learning_rate"] = min(all_of["learning_rate"], 1e-3)
        if optimizer == "sgd" and self.maybe(0.5):
            all_of["optim_args"] = choice(("momentum=0.9", "momentum=0.9, nesterov=True", "momentum=0.5,dampening=0.1"))
        for name, probability, values in (
                ("warmup_steps", 0.5, (1, 2, 5, 0.1, 0.25, 0.5)), ("weight_decay", 0.4, (0.01, 0.1, 0.5)),
                ("max_grad_norm", 0.4, (0, 0.1, 0.5, 5.0)), ("label_smoothing_factor", 0.2, (0.1, 0.3)),
                ("gradient_checkpointing", 0.2, (True,)), ("eval_strategy", 0.35, ("steps", "epoch"))):
            if self.maybe(probability):
                all_of[name] = choice(values)
        if "eval_strategy" in all_of:
            all_of["per_device_eval_batch_size"] = 8  # one batch: the peer's loss is a mean of the batches' means
            all_of["eval_on_start"] = self.maybe(0.3)
        if all_of.get("eval_strategy") == "steps":
            all_of["eval_steps"] = choice((1, 2, 3))
        return all_of

    def draw_quantization(self):
        """bitsandbytes' options of a frozen base in 4 bits, or None. On a CPU, PEFT can't train more than LoRA on one."""
        plain = self.kind == "LORA" and not {"use_dora", "modules_to_save"} & set(self.peft)
        if not plain or self.task == "sequence_classification" or not self.maybe(0.5):
            return None
        return {"load_in_4bit": True, "bnb_4bit_quant_type": self.dice.choice(("nf4", "fp4")),
                "bnb_4bit_use_double_quant": self.maybe(0.5)}

    def linear_layers(self):
        if self.family != "t5":
            return LINEAR.get(self.family, OF_LLAMA)
        return ("q", "k", "v", "o", "wo") + (("wi",) if self.config.feed_forward_proj == "relu" else ("wi_0", "wi_1"))

    def draw_peft(self):
        choice, layers = self.dice.choice, self.linear_layers()
        task = {"task_type": PEFT_TASKS[self.task]}
        if self.maybe(0.3):
            some = self.dice.sample([m for m in layers if m in (
                "q_proj", "v_proj", "down_proj", "up_proj", "o_proj", "c_attn", "query", "value", "q", "v", "o")],
                1 if self.family == "gpt2" else 2)
            return task | choice((
                dict(peft_type="IA3"), dict(peft_type="IA3", target_modules=some, feedforward_modules=some[:1]),
                dict(peft_type="VERA", r=choice((2, 6)), target_modules=some[:1], d_initial=0.3,
                     projection_prng_key=self.dice.randint(0, 9)),
                dict(peft_type="LOHA", r=choice((2, 3)), alpha=choice((1, 8)), target_modules=some),
                dict(peft_type="PREFIX_TUNING", num_virtual_tokens=choice((1, 5))),
                dict(peft_type="PROMPT_TUNING", num_virtual_tokens=choice((1, 5))),
                dict(peft_type="P_TUNING", num_virtual_tokens=3, encoder_hidden_size=16,
                     encoder_reparameterization_type=choice(("MLP", "LSTM")))))
        lora = task | {"r": choice((1, 2, 3, 8)), "lora_alpha": choice((1, 4, 5, 16))}
        targets = choice(("names", "names", "all-linear", "pattern", "default"))
        if targets == "names":
            lora["target_modules"] = self.dice.sample(layers, self.dice.randint(1, len(layers)))
            if self.family != "bert" and self.maybe(0.15):
                lora["target_modules"].append(EMBEDDINGS.get(self.family, "embed_tokens"))
        elif targets != "default":
            pattern = r".*\.(%s)" % "|".join(self.dice.sample(layers, 2))
            lora["target_modules"] = pattern if targets == "pattern" else targets
        for name, probability, value in (
                ("use_rslora", 0.3, True), ("use_dora", 0.2, True), ("bias", 0.25, choice(("all", "lora_only"))),
                ("rank_pattern", 0.25, {choice(layers): choice((1, 4, 5))}),
                ("alpha_pattern", 0.25, {choice(layers): choice((1, 7, 32))})):
            if self.maybe(probability):
                lora[name] = value
        if targets == "names" and self.family != "t5" and self.maybe(0.3):
            lora |= choice(({"layers_to_transform": [0]}, {"layers_to_transform": 0}, {"exclude_modules": [choice(layers)]}))
        if self.task != "sequence_classification" and self.maybe(0.2):
            lora["modules_to_save"] = [choice({"gpt2": ("ln_f", "lm_head"), "t5": ("lm_head", "final_layer_norm")}.get(
                self.family, ("lm_head", "norm")))]
        return lora
