// Manifests for Kubernetes: Kubeflow's PyTorchJob, and JobSet.
#include <fmt/format.h>

#include "engine/base/indented.h"
#include "engine/config/clusters/cluster_job.h"

namespace trainer::config {
namespace {

constexpr const char* kPrerequisites = R"~(# Written by `trainer launch --emit $KIND`; see docs/clusters.md. It uses
#   the image `trainer`, built from the Dockerfile: replace it by its name in your registry
#   a claim for the folder that all machines share: PersistentVolumeClaim $NAME-work (ReadWriteMany)
@if MACHINES #   the machines' common secret: kubectl create secret generic $NAME-secret --from-literal=secret="$(openssl rand -base64 32)"
)~";

// No liveness probe: the launcher is the container's main program, and its watchdog ends it when a rank hangs.
// The training operator's services publish a pod's name only while the pod is ready, and machines have to meet by that
// name before they can train: with several, such a pod is ready as soon as its launcher serves.
constexpr const char* kPod = R"(terminationGracePeriodSeconds: $GRACE
securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
containers:
  - name: pytorch
    image: trainer
    args: $ARGUMENTS
    workingDir: $FOLDER
    env:
@if MACHINES       - {name: TRAINER_SECRET_FILE, value: /run/secrets/trainer/secret}
@if INDEXED       - {name: WORLD_SIZE, value: "$MACHINES"}
@if INDEXED       - {name: RANK, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}
@if INDEXED       - {name: MASTER_ADDR, value: $NAME-machines-0-0.$NAME}
@if INDEXED       - {name: MASTER_PORT, value: "$PORT"}
      - {name: HOME, value: /home/trainer}
    ports: [{name: pytorchjob-port, containerPort: $PORT}$METRICS_CONTAINER_PORT]
@if METRICS_PORT     readinessProbe: {httpGet: {path: $READY_PATH, port: metrics}, periodSeconds: 10}
    resources:
      requests: {cpu: "$CPUS"$GPU_RESOURCE}
      limits: {cpu: "$CPUS"$GPU_RESOURCE}
    volumeMounts:
      - {name: work, mountPath: $FOLDER}
@if GPU_LINE       - {name: shm, mountPath: /dev/shm}
@if MACHINES       - {name: secret, mountPath: /run/secrets/trainer, readOnly: true}
volumes:
  - {name: work, persistentVolumeClaim: {claimName: $NAME-work}}
@if GPU_LINE   - {name: shm, emptyDir: {medium: Memory}}
@if MACHINES   - {name: secret, secret: {secretName: $NAME-secret, defaultMode: 288}}  # 0440
)";

// The operator counts 128 and above as retryable: 143 (stopped, saved) and ranks that died of a signal.
constexpr const char* kPytorchJob = R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: $NAME}
spec:
  runPolicy: {cleanPodPolicy: Running, backoffLimit: $RESTARTS}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: ExitCode
      template:
@if METRICS_PORT         metadata: {annotations: $SCRAPED}
        spec:
$POD
@if MACHINES     Worker:
@if MACHINES       replicas: $WORKERS
@if MACHINES       restartPolicy: ExitCode
@if MACHINES       template:
@if WORKERS_SCRAPED         metadata: {annotations: $SCRAPED}
@if MACHINES         spec:
@if MACHINES $POD
)";

// A pod that fails ends its Job; JobSet then starts all machines again, and the run continues from its checkpoint.
// Failures that this can't fix end the JobSet: exit codes 1, 2, 3, 5 and 7.
constexpr const char* kJobSet = R"(apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: $NAME}
spec:
  network: {enableDNSHostnames: true, publishNotReadyAddresses: true, subdomain: $NAME}
  failurePolicy:
    maxRestarts: $RESTARTS
    rules:
      - {name: unfixable, action: FailJobSet, onJobFailureReasons: [PodFailurePolicy]}
  replicatedJobs:
    - name: machines
      replicas: 1
      template:
        spec:
          parallelism: $MACHINES
          completions: $MACHINES
          completionMode: Indexed
          backoffLimit: 0
          podFailurePolicy:
            rules:
              - {action: FailJob, onExitCodes: {containerName: pytorch, operator: In, values: [1, 2, 3, 5, 7]}}
          template:
@if METRICS_PORT             metadata: {annotations: $SCRAPED}
            spec:
              restartPolicy: Never
$POD
)";

constexpr int64_t kMasterPort = 23456;  // the operator's default
constexpr int64_t kGraceMargin = 10;

std::string manifest(const ClusterJob& job, const char* kind, const char* text, bool indexed, std::size_t pod_column) {
  const bool waits_for_name = !indexed && job.machines > 1, has_metrics = job.metrics_port > 0;
  const std::string metrics_port = std::to_string(job.metrics_port);
  std::vector<TemplateValue> values{
      {"KIND", kind},
      {"NAME", job.name},
      {"FOLDER", quoted(job.folder)},
      {"ARGUMENTS", quoted(container_arguments(job))},
      {"MACHINES", std::to_string(job.machines)},
      {"WORKERS", std::to_string(job.machines - 1)},
      {"INDEXED", indexed && job.machines > 1 ? "yes" : ""},
      {"PORT", std::to_string(job.port > 0 ? job.port : kMasterPort)},
      {"CPUS", std::to_string(job.cpus)},
      {"METRICS_CONTAINER_PORT",
       has_metrics ? fmt::format(", {{name: metrics, containerPort: {}}}", metrics_port) : ""},
      {"METRICS_PORT", metrics_port},
      {"READY_PATH", waits_for_name ? "/healthz" : "/readyz"},
      {"WORKERS_SCRAPED", has_metrics && job.machines > 1 ? "yes" : ""},
      {"SCRAPED",
       fmt::format(R"({{prometheus.io/scrape: "true", prometheus.io/port: "{}", prometheus.io/path: /metrics}})",
                   metrics_port)},
      {"GPU_LINE", job.gpus > 0 ? "yes" : ""},
      {"GPU_RESOURCE", job.gpus > 0 ? fmt::format(", nvidia.com/gpu: {}", job.gpus) : ""},
      {"GRACE", std::to_string(job.grace_seconds + kGraceMargin)},
      {"RESTARTS", std::to_string(job.restarts)}};
  const std::string pod = indented(filled(kPod, values), pod_column), head = filled(kPrerequisites, values);
  values.push_back({"POD", pod});
  return head + filled(text, values);
}

}  // namespace

std::string pytorchjob_text(const ClusterJob& job) {
  constexpr std::size_t kColumn = 10;
  return manifest(job, "pytorchjob", kPytorchJob, false, kColumn);
}

std::string jobset_text(const ClusterJob& job) {
  constexpr std::size_t kColumn = 14;
  return manifest(job, "jobset", kJobSet, true, kColumn);
}

}  // namespace trainer::config
