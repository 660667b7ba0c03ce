#include "mesh/program/checkpoint_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "mesh/program/emitter.h"

namespace weft::mesh {
namespace {

/// Most batches; beyond this the buffer grows. Every batch has a program on every device.
constexpr std::uint64_t kMaxBatches = 1024;

/// Name prefix of a block's copy in host memory.
constexpr std::string_view kCopyPrefix = "copy/";

enum class CheckpointDirection : std::uint8_t { kGather, kScatter };

/// A parameter on one mesh.
struct ParameterLocation {
  MeshId mesh;
  bool is_home = false;
  const LocalValue* local = nullptr;
};

/// Returns the meshes that hold each parameter, by parameter.
std::vector<std::vector<ParameterLocation>> places_of_parameters(const Partition& partition) {
  std::vector<std::vector<ParameterLocation>> places(partition.graph.parameters().size());
  for (const MeshId mesh : partition.meshes.ids()) {
    for (const LocalParameter& parameter : partition.per_mesh[mesh].parameters) {
      places[parameter.parameter].push_back(
          {mesh, parameter.is_home, &partition.per_mesh[mesh].locals[parameter.value]});
    }
  }
  return places;
}

const Value& value_of(const Partition& partition, std::uint32_t parameter) {
  return partition.graph.value(partition.graph.parameters()[parameter].value);
}

/// Returns the number of elements in one row, which is a step along the first dimension.
std::int64_t row_elements(const Shape& shape) {
  return shape.empty() || shape.front() == 0 ? 1 : num_elements(shape) / shape.front();
}

/// Cuts the state into batches, in the graph's order. A tensor that fits the buffer is not cut.
std::vector<std::vector<CheckpointPiece>> fill_batches(const Partition& partition,
                                                       std::uint64_t asked_bytes) {
  std::uint64_t all = 0;
  for (std::uint32_t p = 0; p < partition.graph.parameters().size(); ++p) {
    const Value& value = value_of(partition, p);
    all += value.type.elements() * sizeof(float) * optimizer_blocks(value.name).size();
  }
  const std::uint64_t buffer_bytes = std::max(asked_bytes, all / kMaxBatches);
  std::vector<std::vector<CheckpointPiece>> batches(1);
  std::uint64_t used = 0;
  const auto add = [&](CheckpointPiece piece) {
    if (!batches.back().empty() && used + piece.bytes() > buffer_bytes) {
      batches.emplace_back();
      used = 0;
    }
    piece.offset = used;
    used = piece.end();
    batches.back().push_back(piece);
  };
  for (std::uint32_t p = 0; p < partition.graph.parameters().size(); ++p) {
    const Value& value = value_of(partition, p);
    const std::int64_t elements = value.type.elements(), row = row_elements(value.type.shape);
    const std::int64_t rows_that_fit =
        static_cast<std::int64_t>(buffer_bytes / sizeof(float)) / row;
    const bool fits = elements * sizeof(float) <= buffer_bytes;
    const std::int64_t most =
        fits ? std::max<std::int64_t>(elements, 1) : std::max<std::int64_t>(rows_that_fit, 1) * row;
    for (std::uint32_t block = 0; block < optimizer_blocks(value.name).size(); ++block) {
      for (std::int64_t begin = 0; begin < elements; begin += most)
        add({p, static_cast<StateBlock>(block), begin, std::min(most, elements - begin), 0,
             value.type.shape, partition.graph.parameters()[p].shape});
    }
  }
  return batches;
}

/// Returns a piece's rows as a region of the whole parameter.
Region rows_of(const CheckpointPiece& piece, const Shape& shape) {
  Region whole = Region::whole(shape);
  if (shape.empty()) return whole;
  std::vector<Interval> intervals(whole.intervals().begin(), whole.intervals().end());
  const std::int64_t row = row_elements(shape);
  intervals.front() = {piece.begin / row, (piece.begin + piece.count) / row};
  return Region(std::move(intervals));
}

/// Returns `region` relative to the first row of `rows`.
Region from_row(const Region& region, const Region& rows) {
  std::vector<Interval> intervals(region.intervals().begin(), region.intervals().end());
  if (intervals.empty()) return region;
  intervals.front() = {intervals.front().begin - rows[0].begin,
                       intervals.front().end - rows[0].begin};
  return Region(std::move(intervals));
}

Shape shape_of(const Region& region) {
  Shape shape;
  for (const Interval& interval : region.intervals())
    shape.push_back(interval.end - interval.begin);
  return shape;
}

/// Rows of a piece on one device: a contiguous part of its shard.
struct DeviceRows {
  std::uint64_t begin = 0;  ///< First element, counted from the start of the shard.
  Shape shape = {};
};

/// Transfer of one piece between a mesh and the driver's buffer.
struct PieceTransfer {
  transfer::ReshardPlan plan;
  /// Rows by device; devices without rows are absent.
  std::map<transfer::DeviceId, DeviceRows> rows;
};

bool has_replicas(const transfer::ShardMap& map) {
  std::set<Region> regions;
  for (const transfer::Shard& shard : map.shards)
    if (!regions.insert(shard.region).second) return true;
  return false;
}

PieceTransfer plan_piece(const Partition& partition, const CheckpointPiece& piece,
                         const ParameterLocation& place, CheckpointDirection direction,
                         transfer::DeviceId driver, const transfer::Topology& topology) {
  const Shape& shape = value_of(partition, piece.parameter).type.shape;
  const DeviceMesh& mesh = partition.meshes[place.mesh];
  const Region rows = rows_of(piece, shape);
  const TensorType type{DType::kF32, shape_of(rows)};
  PieceTransfer result;
  transfer::ShardMap shards{type.shape, {}};
  for (const auto& shard : shard_map(shape, place.local->spec, mesh).shards) {
    const auto own = shard.region.intersect(rows);
    if (!own) continue;
    shards.shards.push_back({shard.device, from_row(*own, rows)});
    const Shape local = shape_of(shard.region);
    const std::int64_t skipped =
        shape.empty() ? 0 : ((*own)[0].begin - shard.region[0].begin) * row_elements(local);
    result.rows[shard.device] = {static_cast<std::uint64_t>(skipped), shape_of(*own)};
  }
  const transfer::ShardMap whole{type.shape, {{driver, Region::whole(type.shape)}}};
  const bool gather = direction == CheckpointDirection::kGather;
  const transfer::ReshardTask task{type, gather ? shards : whole, gather ? whole : shards};
  // A gather reads the first replica, as all are equal. A scatter to replicas sends each byte only
  // once from the driver to each host. Without replicas there is no choice.
  const bool straight = gather || !has_replicas(shards);
  result.plan = transfer::plan_reshard(
      task, topology,
      straight ? transfer::ReshardAlgorithm::kSendRecv : transfer::ReshardAlgorithm::kWeft);
  return result;
}

/// Cache of piece plans. Pieces with equal shapes, specs and rows share a plan, such as a value and
/// its moments, or equal blocks of a model.
class PiecePlans {
 public:
  PiecePlans(const Partition& partition, CheckpointDirection direction, transfer::DeviceId driver,
             const transfer::Topology& topology)
      : partition_(partition), direction_(direction), driver_(driver), topology_(topology) {}

  const PieceTransfer& of(const CheckpointPiece& piece, const ParameterLocation& place) {
    const Key key{value_of(partition_, piece.parameter).type.shape, place.local->spec, place.mesh,
                  piece.begin, piece.count};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    return plans_.emplace(key, plan_piece(partition_, piece, place, direction_, driver_, topology_))
        .first->second;
  }

 private:
  using Key = std::tuple<Shape, Spec, MeshId, std::int64_t, std::int64_t>;
  const Partition& partition_;
  const CheckpointDirection direction_;
  const transfer::DeviceId driver_;
  const transfer::Topology& topology_;
  std::map<Key, PieceTransfer> plans_;
};

/// Compiler of the programs of one batch in one direction.
class BatchCompiler {
 public:
  BatchCompiler(const Partition& partition, PiecePlans& plans, CheckpointDirection direction,
                const std::string& name, transfer::DeviceId driver, std::uint64_t buffer_bytes,
                GatherFrom from)
      : partition_(partition),
        plans_(plans),
        direction_(direction),
        from_(from),
        driver_(driver),
        buffer_bytes_(buffer_bytes),
        driver_emitter_(name, driver, "driver") {
    for (const MeshId id : partition.meshes.ids()) {
      if (partition.spans(id)) continue;
      const DeviceMesh& mesh = partition.meshes[id];
      for (int rank = 0; rank < mesh.size(); ++rank) {
        const transfer::DeviceId device = mesh.devices()[rank];
        emitter_of_.emplace(device, emitters_.size());
        emitters_.emplace_back(name, device, device_name(mesh, rank));
      }
    }
  }

  void add(const CheckpointPiece& piece, const ParameterLocation& place) {
    const bool gather = direction_ == CheckpointDirection::kGather;
    const Value& value = value_of(partition_, piece.parameter);
    const std::string block = optimizer_blocks(value.name)[static_cast<std::size_t>(piece.block)];
    const PieceTransfer& planned = plans_.of(piece, place);
    const DeviceMesh& mesh = partition_.meshes[place.mesh];
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const transfer::DeviceId device = mesh.devices()[rank];
      const std::uint64_t shard_elements =
          num_elements(local_shape(value.type.shape, place.local->spec, mesh, rank));
      Emitter& emitter = emitters_[emitter_of_.at(device)];
      const auto rows = planned.rows.find(device);
      if (rows == planned.rows.end()) continue;
      transfer::DevicePart part = planned.plan.device_part(device);
      const bool copied = gather && from_ == GatherFrom::kCopies;
      if (copied && part.empty()) continue;  // Another replica sends; this device needs no copy.
      const std::int32_t persistent =
          copied ? emitter.persistent(std::string(kCopyPrefix) + block,
                                      shard_elements * sizeof(float), MemoryKind::kHost)
                 : emitter.persistent(block, shard_elements * sizeof(float));
      const std::uint32_t buffer = emitter.add_persistent_buffer(
          persistent, rows->second.begin * sizeof(float), {DType::kF32, rows->second.shape});
      start(emitter, std::move(part), block, buffer, gather);
      if (gather || piece.block != StateBlock::kValue || value.type.dtype == DType::kF32) continue;
      const std::uint64_t element = size_of(value.type.dtype);
      const std::int32_t working =
          emitter.persistent(working_block(value.name, value.type.dtype), shard_elements * element);
      to_round_.push_back({emitter_of_.at(device), buffer,
                           emitter.add_persistent_buffer(working, rows->second.begin * element,
                                                         {value.type.dtype, rows->second.shape})});
    }
    const std::uint32_t buffer = driver_emitter_.add_persistent_buffer(
        driver_emitter_.persistent(kCheckpointBuffer, buffer_bytes_), piece.offset,
        {DType::kF32, shape_of(rows_of(piece, value.type.shape))});
    start(driver_emitter_, planned.plan.device_part(driver_), block, buffer, !gather);
    ++op_;
  }

  std::vector<Program> finish() {
    // Round the working copies after all transfers are started, so that they overlap.
    for (const WorkingCopy& copy : to_round_)
      emitters_[copy.emitter].run({OpKind::kToBF16, {}}, {copy.value}, {copy.working}, false);
    emitters_.push_back(std::move(driver_emitter_));
    return finish_all(emitters_);
  }

 private:
  struct WorkingCopy {
    std::size_t emitter = 0;
    std::uint32_t value = 0, working = 0;
  };

  void start(Emitter& emitter, transfer::DevicePart part, const std::string& block,
             std::uint32_t buffer, bool is_source) {
    if (part.empty()) return;
    const std::uint32_t transfer =
        emitter.add_transfer({block, TransferPurpose::kCheckpoint, op_, std::move(part)});
    const auto source = is_source ? std::optional(buffer) : std::nullopt;
    const auto destination = is_source ? std::nullopt : std::optional(buffer);
    emitter.start(transfer, -1, source, destination);
  }

  const Partition& partition_;
  PiecePlans& plans_;
  const CheckpointDirection direction_;
  const GatherFrom from_;
  const transfer::DeviceId driver_;
  const std::uint64_t buffer_bytes_;
  Emitter driver_emitter_;
  std::vector<Emitter> emitters_;  ///< Ordered by mesh, then rank.
  std::map<transfer::DeviceId, std::size_t> emitter_of_;
  std::vector<WorkingCopy> to_round_;
  std::uint32_t op_ = 0;
};

}  // namespace

std::vector<CheckpointBatch> compile_checkpoint(const Partition& partition,
                                                transfer::DeviceId driver,
                                                const transfer::Topology& topology,
                                                std::uint64_t buffer_bytes, GatherFrom from) {
  const std::vector<std::vector<ParameterLocation>> places = places_of_parameters(partition);
  const std::vector<std::vector<CheckpointPiece>> filled = fill_batches(partition, buffer_bytes);
  std::uint64_t most = 0;
  for (const auto& pieces : filled)
    if (!pieces.empty()) most = std::max(most, pieces.back().end());
  PiecePlans gathers(partition, CheckpointDirection::kGather, driver, topology),
      scatters(partition, CheckpointDirection::kScatter, driver, topology);
  std::vector<CheckpointBatch> batches;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    BatchCompiler gather(partition, gathers, CheckpointDirection::kGather,
                         fmt::format("gather.{}", i), driver, most, from);
    BatchCompiler scatter(partition, scatters, CheckpointDirection::kScatter,
                          fmt::format("scatter.{}", i), driver, most, from);
    for (const CheckpointPiece& piece : filled[i]) {
      for (const ParameterLocation& place : places[piece.parameter]) {
        if (place.is_home) gather.add(piece, place);
        scatter.add(piece, place);
      }
    }
    batches.push_back({filled[i], gather.finish(), scatter.finish()});
  }
  return batches;
}

std::vector<Program> compile_checkpoint_copy(const std::vector<CheckpointBatch>& batches) {
  // Bytes by block name, by device.
  std::map<transfer::DeviceId, std::map<std::string, std::uint64_t>> copies;
  for (const CheckpointBatch& batch : batches) {
    for (const Program& program : batch.gather)
      for (const PersistentBlock& block : program.persistents)
        if (block.name.starts_with(kCopyPrefix)) copies[program.device][block.name] = block.bytes;
  }
  std::vector<Program> programs;
  const std::vector<Program>& all = batches.front().gather;
  for (const Program& gather : std::span(all).first(all.size() - 1)) {
    Emitter emitter("copy", gather.device, gather.device_name);
    for (const auto& [copy, bytes] : copies[gather.device]) {
      const TensorType type{DType::kF32, {static_cast<std::int64_t>(bytes / sizeof(float))}};
      const std::uint32_t from = emitter.add_persistent_buffer(
          emitter.persistent(copy.substr(kCopyPrefix.size()), bytes), 0, type);
      const std::uint32_t to = emitter.add_persistent_buffer(
          emitter.persistent(copy, bytes, MemoryKind::kHost), 0, type);
      emitter.accumulate(from, to, true);
    }
    programs.push_back(emitter.finish());
  }
  validate(programs);
  return programs;
}

}  // namespace weft::mesh
