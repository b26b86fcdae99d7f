// A file for Docker Compose: one container for each machine.
#include <fmt/format.h>

#include "engine/config/clusters/cluster_job.h"

namespace trainer::config {
namespace {

constexpr const char* kHead =
    R"(# Written by `trainer launch --emit compose`; see docs/clusters.md. Start it with `docker compose -f FILE up`. It uses the
# image `trainer`, built from the Dockerfile: docker build -t trainer .
@if MACHINES # The file trainer-secret beside this one holds the machines' common secret; only uid 1000 may read it:
@if MACHINES #   openssl rand -base64 32 >trainer-secret && chmod 400 trainer-secret && chown 1000 trainer-secret
name: $NAME
x-machine: &machine
  image: trainer
  command: $ARGUMENTS
  init: true
  working_dir: $FOLDER
  volumes: [{type: bind, source: $FOLDER, target: $FOLDER}]
  stop_grace_period: $GRACEs
@if MACHINES   secrets: [trainer-secret]
@if METRICS_PORT   expose: ["$METRICS_PORT"]
@if METRICS_PORT   healthcheck:  # healthy once the run trains; the image has no HTTP client
@if METRICS_PORT     test: [CMD, bash, -c, 'exec 3<>/dev/tcp/127.0.0.1/$METRICS_PORT && printf "GET /readyz HTTP/1.0\r\n\r\n" >&3 && grep -q "^HTTP/1.1 200 " <&3']
@if METRICS_PORT     interval: 10s
@if GPU_LINE   shm_size: 8gb  # NCCL's ranks share memory
@if GPU_LINE   ulimits: {memlock: -1}
@if GPU_LINE   deploy: {resources: {reservations: {devices: [{driver: nvidia, count: $GPUS, capabilities: [gpu]}]}}}
services:
)";

constexpr const char* kMachine = R"(  machine-$RANK:
    <<: *machine
@if MACHINES     environment:
@if MACHINES       WORLD_SIZE: "$MACHINES"
@if MACHINES       RANK: "$RANK"
@if MACHINES       MASTER_ADDR: machine-0
@if MACHINES       MASTER_PORT: "$PORT"
@if MACHINES       TRAINER_SECRET_FILE: /run/secrets/trainer-secret
)";

constexpr const char* kTail = R"(@if MACHINES secrets: {trainer-secret: {file: ./trainer-secret}}
)";

constexpr int64_t kComposePort = 29500;
constexpr int64_t kComposeMargin = 10;

}  // namespace

std::string compose_text(const ClusterJob& job) {
  std::vector<TemplateValue> values{{"NAME", job.name},
                                    {"FOLDER", quoted(job.folder)},
                                    {"ARGUMENTS", quoted(container_arguments(job))},
                                    {"MACHINES", std::to_string(job.machines)},
                                    {"METRICS_PORT", std::to_string(job.metrics_port)},
                                    {"PORT", std::to_string(job.port > 0 ? job.port : kComposePort)},
                                    {"GPU_LINE", job.gpus > 0 ? "yes" : ""},
                                    {"GPUS", std::to_string(job.gpus)},
                                    {"GRACE", std::to_string(job.grace_seconds + kComposeMargin)}};
  std::string text = filled(kHead, values);
  for (int64_t machine = 0; machine < job.machines; ++machine) {
    values.push_back({"RANK", std::to_string(machine)});
    text += filled(kMachine, values);
    values.pop_back();
  }
  return text + filled(kTail, values);
}

}  // namespace trainer::config
