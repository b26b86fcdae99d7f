"""Writes mlp/: the values that torch computes for a small network of linear layers. README.md lists the files."""

import torch
from golden_folder import GOLDEN, write_folder, write_json
from golden_t5 import write_tensors
from torch.nn.functional import cross_entropy

BATCH, UPDATES, LEARNING_RATE = 64, 20, 0.01
CONFIG = dict(model_type="mlp", input_size=21, hidden_sizes=[17, 11], num_labels=10, activation="relu", dropout=0.0)


class Network(torch.nn.Module):
    """Written as a torch user would; the initial values are torch.nn.Linear's own."""

    def __init__(self) -> None:
        super().__init__()
        widths = [CONFIG["input_size"], *CONFIG["hidden_sizes"], CONFIG["num_labels"]]
        for i, (before, after) in enumerate(zip(widths, widths[1:])):
            setattr(self, f"fc{i + 1}", torch.nn.Linear(before, after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def main() -> None:
    torch.manual_seed(0)
    network, folder = Network(), GOLDEN / "mlp"
    write_folder(folder, CONFIG, {name: p.detach() for name, p in network.named_parameters()}, torch.float32)
    images = torch.randint(0, 256, (4 * BATCH, CONFIG["input_size"]), dtype=torch.uint8)
    classes = (images.float().mean(dim=1) * 7).long() % CONFIG["num_labels"]
    tensors = {"images": images, "classes": classes.to(torch.uint8)}
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE), []
    for update in range(UPDATES):
        rows = slice(update % 4 * BATCH, (update % 4 + 1) * BATCH)
        optimizer.zero_grad()
        logits = network(images[rows].float() / 255)
        loss = cross_entropy(logits, classes[rows])
        loss.backward()
        if update == 0:
            tensors["logits"] = logits.detach().clone()
            tensors.update({"gradient." + name: p.grad.clone() for name, p in network.named_parameters()})
        optimizer.step()
        losses.append(loss.item())
    write_tensors(folder / "expected.safetensors", tensors)
    write_json(folder / "expected.json", {"batch_size": BATCH, "learning_rate": LEARNING_RATE, "losses": losses})
    print(losses[0], losses[-1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
