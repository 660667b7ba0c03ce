#include <fmt/format.h>

#include "core/base/check.h"
#include "mesh/program/mesh_compiler.h"
#include "transfer/collective/collective.h"

namespace weft::mesh {
namespace {

/// Ranks that are alike in all coordinates but `axes`, by their place along these.
std::vector<std::vector<int>> groups_over(const DeviceMesh& mesh, const std::vector<int>& axes) {
  std::map<Coordinate, std::vector<int>> groups;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    Coordinate key = mesh.coordinate(rank);
    for (const int axis : axes) key[static_cast<std::size_t>(axis)] = 0;
    groups[key].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  for (auto& [key, ranks] : groups) result.push_back(std::move(ranks));
  return result;
}

std::vector<transfer::DeviceId> devices_of(const DeviceMesh& mesh, const std::vector<int>& ranks) {
  std::vector<transfer::DeviceId> devices;
  for (const int rank : ranks) devices.push_back(mesh.devices()[static_cast<std::size_t>(rank)]);
  return devices;
}

}  // namespace

std::vector<std::uint32_t> MeshCompiler::add_all_reduce(const std::string& name, const std::vector<int>& axes,
                                                        const std::vector<TensorType>& types) {
  std::vector<std::uint32_t> transfers(emitters_.size());
  for (const std::vector<int>& group : groups_over(mesh_, axes)) {
    const TensorType& type = types[static_cast<std::size_t>(group.front())];
    const transfer::CollectivePlan plan =
        transfer::plan_all_reduce(type.dtype, Region::whole(type.shape), devices_of(mesh_, group), topology_);
    const std::uint32_t op = ops_.next();
    for (const int rank : group) {
      transfers[static_cast<std::size_t>(rank)] = emitters_[static_cast<std::size_t>(rank)].add_transfer(
          {name, TransferKind::kAllReduce, op, plan.device_part(mesh_.devices()[static_cast<std::size_t>(rank)])});
    }
  }
  return transfers;
}

std::vector<std::uint32_t> MeshCompiler::add_reshard(const std::string& name, const TensorType& type, const Spec& from,
                                                     const Spec& to) {
  const transfer::ReshardTask task{type, shard_map(type.shape, from, mesh_), shard_map(type.shape, to, mesh_)};
  const transfer::ReshardPlan plan = transfer::plan_reshard(task, topology_, transfer::Strategy::kWeft);
  const std::uint32_t op = ops_.next();
  std::vector<std::uint32_t> transfers;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    transfers.push_back(emitters_[static_cast<std::size_t>(rank)].add_transfer(
        {name, TransferKind::kInMesh, op, plan.device_part(mesh_.devices()[static_cast<std::size_t>(rank)])}));
  }
  return transfers;
}

void MeshCompiler::make_step_transfers() {
  step_transfer_.resize(part_.steps.size());
  for (std::size_t i = 0; i < part_.steps.size(); ++i) {
    const Step& step = part_.steps[i];
    if (const auto* reduce = std::get_if<AllReduceStep>(&step.what)) {
      std::vector<TensorType> types;
      for (int rank = 0; rank < num_ranks(); ++rank) types.push_back(local_type(reduce->input, rank));
      step_transfer_[i] = add_all_reduce("all-reduce " + value_name(reduce->input), reduce->axes, types);
    } else if (const auto* reshard = std::get_if<ReshardStep>(&step.what)) {
      step_transfer_[i] =
          add_reshard("reshard " + value_name(reshard->input), partition_.graph.value(local(reshard->input).value).type,
                      local(reshard->input).spec, local(reshard->output).spec);
    }
  }
}

void MeshCompiler::reduce_gradients() {
  for (const auto& [axes, block] : sum_blocks_) {
    if (axes.empty() || block.second == 0) continue;
    const TensorType type{DType::kF32, {static_cast<std::int64_t>(block.second / size_of(DType::kF32))}};
    const auto transfers = add_all_reduce("all-reduce " + block.first, axes, std::vector<TensorType>(emitters_.size(), type));
    for (std::size_t r = 0; r < emitters_.size(); ++r) {
      const std::uint32_t whole = emitters_[r].add_persistent_buffer(emitters_[r].persistent(block.first, block.second), 0, type);
      emitters_[r].start(transfers[r], -1, whole, whole);
    }
  }
  for (Emitter& emitter : emitters_) emitter.wait_for_all();
}

std::vector<std::uint32_t> MeshCompiler::final_gradient(std::size_t index) {
  const LocalParameter& parameter = part_.parameters[index];
  Spec spec = local(*parameter.gradient).spec;
  spec.partial.clear();
  const Spec& wanted = local(parameter.value).spec;
  if (spec == wanted) return sums_[index].buffers;
  // The gradient came out split otherwise than the parameter: bring it into the parameter's place, once per step.
  const std::string name = value_name(parameter.value);
  const auto transfers =
      add_reshard("reshard gradient of " + name, partition_.graph.value(local(parameter.value).value).type, spec, wanted);
  std::vector<std::uint32_t> buffers;
  for (std::size_t r = 0; r < emitters_.size(); ++r) {
    const TensorType type = local_type(parameter.value, static_cast<int>(r));
    buffers.push_back(emitters_[r].add_persistent_buffer(emitters_[r].persistent("gradient/" + name, type.bytes()), 0, type));
    emitters_[r].start(transfers[r], -1, sums_[index].buffers[r], buffers.back());
  }
  return buffers;
}

void MeshCompiler::emit_update(std::uint32_t norm_op, const transfer::ReshardPlan& norm_plan,
                               const std::vector<transfer::DeviceId>& all_devices) {
  reduce_gradients();
  for (std::size_t i = 0; i < part_.parameters.size(); ++i) {
    const LocalParameter& parameter = part_.parameters[i];
    WEFT_CHECK(parameter.gradient.has_value(), "'{}' has no gradient", value_name(parameter.value));
    const std::vector<std::uint32_t> gradients = final_gradient(i);
    const Parameter& logical = partition_.graph.parameters()[static_cast<std::size_t>(parameter.parameter)];
    const Value& value = partition_.graph.value(logical.value);
    const Spec& spec = local(parameter.value).spec;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const TensorType type = local_type(parameter.value, rank);
      const auto moment = [&](const std::string& name) {
        return emitters_[r].add_persistent_buffer(emitters_[r].persistent(name + "/" + value.name, type.bytes()), 0, type);
      };
      emitters_[r].add_parameter({value.name, static_cast<std::uint32_t>(parameter.parameter), value.type.shape,
                                  region_of(value.type.shape, spec, mesh_, rank),
                                  static_cast<std::uint8_t>(logical.initializer.kind), logical.initializer.standard_deviation,
                                  logical.decay, is_first_replica(spec, mesh_, rank), parameters_[r].at(parameter.value),
                                  gradients[r], moment("first_moment"), moment("second_moment")});
    }
  }
  for (std::size_t r = 0; r < emitters_.size(); ++r) {
    Emitter& emitter = emitters_[r];
    emitter.wait_for_all();
    const auto rows = static_cast<std::int64_t>(all_devices.size());
    const auto columns = static_cast<std::int64_t>(partition_.graph.parameters().size());
    const TensorType row{DType::kF64, {1, columns}}, table{DType::kF64, {rows, columns}};
    const std::uint32_t own = emitter.add_persistent_buffer(emitter.persistent("norms/own", row.bytes()), 0, row);
    const std::uint32_t all = emitter.add_persistent_buffer(emitter.persistent("norms/all", table.bytes()), 0, table);
    emitter.norm(own);
    const std::uint32_t gather =
        emitter.add_transfer({"norms", TransferKind::kNorm, norm_op, norm_plan.device_part(mesh_.devices()[r])});
    emitter.wait(emitter.start(gather, -1, own, all));
    emitter.update(all);
  }
}

}  // namespace weft::mesh
