#include "apps/train/mesh_engine.h"

#include <algorithm>

namespace weft::apps {
namespace {

StatePiece state_piece(const mesh::CheckpointPiece& piece) {
  return {piece.parameter, static_cast<StateBlock>(piece.block),
          static_cast<std::size_t>(piece.begin)};
}

std::span<float> part_of(std::span<float> buffer, const mesh::CheckpointPiece& piece) {
  return buffer.subspan(piece.offset / sizeof(float), static_cast<std::size_t>(piece.count));
}

}  // namespace

StepOutcome MeshEngine::step(const StepOrder& order) {
  mesh::StepRequest request;
  request.program = "train";
  request.step = static_cast<std::uint64_t>(order.step);
  request.trace = order.trace;
  request.optimizer = {.learning_rate = order.optimizer.learning_rate,
                       .beta1 = order.optimizer.beta1,
                       .beta2 = order.optimizer.beta2,
                       .epsilon = order.optimizer.epsilon,
                       .weight_decay = order.optimizer.weight_decay,
                       .clip_norm = order.clip_norm,
                       .number = order.step};
  const mesh::StepResult result = runner_.run(request);
  const auto name_of = [&](std::uint32_t parameter) {
    const Graph& graph = runner_.plan().partition.graph;
    return graph.value(graph.parameters()[parameter].value).name;
  };
  const double devices = std::max(1, runner_.plan().num_devices());
  return {.loss = result.loss,
          .grad_norm = result.grad_norm,
          .not_finite = result.first_not_finite ? name_of(*result.first_not_finite) : "",
          .transfer_seconds = result.transfer_seconds / devices,
          .exposed_transfer_seconds = result.exposed_transfer_seconds / devices,
          .resharded_bytes = result.reshard_bytes,
          .note = result.note};
}

double MeshEngine::validate(std::int64_t batches) {
  double sum = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    mesh::StepRequest request;
    request.program = "validate";
    request.step = static_cast<std::uint64_t>(batch);
    request.split = mesh::Split::kValidation;
    sum += runner_.run(request).loss;
  }
  return sum / static_cast<double>(batches);
}

ParameterList MeshEngine::parameters() const {
  ParameterList list;
  for (const Parameter& parameter : runner_.plan().partition.graph.parameters()) {
    const Value& value = runner_.plan().partition.graph.value(parameter.value);
    list.push_back({value.name, value.type.shape});
  }
  return list;
}

void MeshEngine::gather(const TakePiece& take, const std::stop_token& stop) {
  for (const mesh::CheckpointBatch& batch : checkpoint_) {
    runner_.gather(batch, stop);
    for (const mesh::CheckpointPiece& piece : batch.pieces)
      take(state_piece(piece), part_of(runner_.checkpoint_buffer(), piece));
  }
}

void MeshEngine::restore(const GivePiece& give, std::int64_t /*steps_done*/) {
  for (const mesh::CheckpointBatch& batch : runner_.plan().checkpoint) {
    for (const mesh::CheckpointPiece& piece : batch.pieces)
      give(state_piece(piece), part_of(runner_.checkpoint_buffer(), piece));
    runner_.scatter(batch);
  }
}

}  // namespace weft::apps
