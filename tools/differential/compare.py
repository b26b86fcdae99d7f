"""What differs between the peer's run of a job and ours."""

import copy
import random

import torch

import ours
import peer

# Of values that rounding decides: the gradient of a key's bias is 0, and these optimizers divide it by its own size.
NO_GRADIENT = ("key.bias", "k_proj.bias", "c_attn.bias", "key.base_layer.bias", "k_proj.base_layer.bias",
               "c_attn.base_layer.bias")
BY_SIGN = ("rmsprop", "lion_32bit", "adagrad", "adamw_bnb_8bit")
# PEFT writes these too: the base's table beside an adapter of it, and a head's bias a second time.
EXTRA = tuple(f"{name}.base_layer.weight" for name in ("embed_tokens", "wte", "shared")) + (
    "classifier.modules_to_save.bias", "classifier.original_module.bias")
ELSEWHERE = ("attn.bias", "masked_bias", "position_ids", "lm_head.weight", "embed_tokens", "shared")  # tied, or no weights


def close(a, b, relative, absolute):
    return abs(a - b) <= relative * max(abs(a), abs(b)) + absolute


def losses(job, theirs, mine):
    loose = 50 if job.arguments["optim"] == "adamw_bnb_8bit" else 5 if job.arguments["optim"] in BY_SIGN else 1
    updates, own = ({line["step"]: line for line in lines if "loss" in line} for lines in (theirs, mine))
    if sorted(updates) != sorted(own):
        yield f"updates: peer {sorted(updates)}, ours {sorted(own)}"
    for step in sorted(set(updates) & set(own)):
        grown = loose * 1.5 ** (step - 1)  # differences of rounding grow with each update
        for name, relative, absolute in (("loss", 2e-4 * grown, 1e-4 * loose), ("grad_norm", 1e-3 * grown, 1e-5 * loose),
                                         ("learning_rate", 1e-5, 1e-12)):
            a, b = updates[step][name], own[step][name]
            if not close(a, b, relative, absolute):
                yield f"step {step}: {name} of the peer {a}, ours {b}"
    evaluated, own = ([(line["step"], line["eval_loss"]) for line in lines if "eval_loss" in line]
                      for lines in (theirs, mine))
    if [step for step, _ in evaluated] != [step for step, _ in own]:
        yield f"evaluations: peer {evaluated}, ours {own}"
    for (step, a), (_, b) in zip(evaluated, own):
        if not close(a, b, 2e-4 * loose * 1.5 ** step, 1e-4 * loose):
            yield f"step {step}: eval_loss of the peer {a}, ours {b}"


def tensors(job, theirs, mine):
    theirs = {name: value for name, value in theirs.items() if not name.endswith(EXTRA)}
    if job.peft:
        for name in sorted(set(theirs) ^ set(mine)):
            yield f"only the {'peer' if name in theirs else 'adapter of ours'} has {name}"
    for name in sorted(set(theirs) - set(mine)):
        if not job.peft and not any(part in name for part in ELSEWHERE):
            yield f"ours lacks {name}"
    for name in sorted(set(theirs) & set(mine)):
        a, b = theirs[name].float(), mine[name].float()
        if a.shape != b.shape:
            yield f"{name}: peer {tuple(a.shape)}, ours {tuple(b.shape)}"
        elif not job.pasted and job.arguments["optim"] not in BY_SIGN and not name.endswith(NO_GRADIENT):
            difference, most = (a - b).abs().max().item(), a.abs().max().item()
            if difference > (2e-3 * most + 1e-4) * 1.2 ** job.arguments.get("max_steps", 5):
                yield f"{name} differs by {difference:.1e} of {most:.1e}"


def merged(trainer, job, folder, model):
    mine = ours.merged(trainer, folder)
    for name, value in copy.deepcopy(model).merge_and_unload().state_dict().items():
        if name not in mine:
            if not any(part in name for part in ELSEWHERE):
                yield f"the merged model of ours lacks {name}"
        elif (mine[name].float() - value.float()).abs().max().item() > 2e-5 * max(1, value.abs().max().item()):
            yield f"{name} of the merged model differs"


def changes_tied_table(job):
    """PEFT then merges the change of the embedding into the head too, which it wasn't trained for; trainer unties them."""
    targets = job.peft.get("target_modules") or ()
    return any(table in targets for table in ("embed_tokens", "wte", "shared"))


def generated(trainer, job, folder, model):
    dice, options = random.Random(job.seed + 7), {}
    options["max_new_tokens"] = dice.choice((1, 5, 12))
    if dice.random() < 0.5:
        options |= {"num_beams": dice.choice((2, 3, 4)), "length_penalty": dice.choice((0.5, 1.0, 2.0, -1.0)),
                    "early_stopping": dice.choice((True, False, "never")), "num_return_sequences": dice.choice((1, 2))}
    if dice.random() < 0.3:
        options["repetition_penalty"] = dice.choice((1.2, 0.8, 2.0))
    mine = [line["generated"] for line in ours.generated(trainer, folder, options)]
    theirs = []
    for record in job.held_out:
        ids = torch.tensor([job.tokenizer(record["text"])["input_ids"]])
        # Without the cache, which counts T5's layers by its encoder's.
        rows = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0,
                              use_cache=job.task != "seq2seq_lm", **options)
        for row in rows:
            reply = row if job.task == "seq2seq_lm" else row[ids.shape[1]:]
            theirs.append(job.tokenizer.decode(reply, skip_special_tokens=True))
    if mine != theirs:
        yield f"generated with {options}: peer {theirs}, ours {mine}"


def differences(trainer, job, folder):
    their_lines, theirs = peer.train(job, folder)
    my_lines, mine = ours.train(trainer, job, folder)
    found = list(tensors(job, theirs, mine))
    if job.pasted:  # another start: only what it consists of can be the same
        return found
    found = list(losses(job, their_lines, my_lines)) + found
    with torch.no_grad():
        model = peer.loaded(job, folder)
        if job.kind in ("LORA", "IA3", "VERA", "LOHA") and not changes_tied_table(job):
            found += merged(trainer, job, folder, model)
        if job.task != "sequence_classification":
            found += generated(trainer, job, folder, model)
    return found
