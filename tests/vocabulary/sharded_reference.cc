#include "tests/vocabulary/sharded_reference.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "core/base/check.h"
#include "core/ops/op_definition.h"

namespace weft::test {
namespace {

using mesh::ComputeStep;
using mesh::LocalId;
using mesh::MeshId;
using mesh::MoveStep;
using mesh::Spec;

Numbers sum_leading(const ReferenceRun& run) {
  Numbers sum(run.last(0), 0.0);
  for (std::size_t i = 0; i < run.in(0).size(); ++i) sum[i % sum.size()] += run.in(0)[i];
  return sum;
}

const std::map<OpKind, Reference>& references() {
  static const std::map<OpKind, Reference> all = [] {
    std::map<OpKind, Reference> known = op_cases().references;
    known[OpKind::kSumLeading] = sum_leading;
    return known;
  }();
  return all;
}

/// Returns the index in the whole tensor of each element of a part.
std::vector<std::size_t> places(const Shape& whole, const Region& part) {
  std::vector<std::size_t> result;
  for (std::int64_t i = 0; i < part.num_elements(); ++i) {
    std::size_t place = 0, step = 1;
    std::int64_t rest = i;
    for (std::size_t d = whole.size(); d-- > 0;) {
      const Interval& range = part.intervals()[d];
      place += static_cast<std::size_t>(range.begin + rest % range.size()) * step;
      rest /= range.size();
      step *= static_cast<std::size_t>(whole[d]);
    }
    result.push_back(place);
  }
  return result;
}

/// Devices of a mesh with one axis, and the values of each device. Each object runs once.
class Devices {
 public:
  explicit Devices(const mesh::Partition& partition)
      : partition_(partition),
        mesh_(partition.meshes[MeshId(0)]),
        part_(partition.per_mesh[MeshId(0)]),
        held_(mesh_.size()) {
    WEFT_CHECK(partition.meshes.size() == 1 && mesh_.axes().size() == 1);
  }

  Values run(const Values& values) {
    for (const LocalId id : part_.locals.ids()) {
      const mesh::LocalValue& local = part_.locals[id];
      if (local.origin == mesh::LocalOrigin::kComputed) continue;
      const Numbers& whole = values.at(local.value);
      WEFT_CHECK(std::ssize(whole) == type(local.value).elements());
      for (int rank = 0; rank < mesh_.size(); ++rank)
        held_[rank][id] = slice(whole, local.value, local.spec, rank);
    }
    for (const mesh::Step& step : part_.steps) {
      if (const auto* move = std::get_if<MoveStep>(&step.what)) {
        const ValueId value = part_.locals[move->input].value;
        const Numbers whole = together(move->input);
        for (int rank = 0; rank < mesh_.size(); ++rank)
          held_[rank][move->output] = slice(whole, value, part_.locals[move->output].spec, rank);
      } else {
        for (int rank = 0; rank < mesh_.size(); ++rank)
          compute(std::get<ComputeStep>(step.what), rank);
      }
    }
    Values results;
    for (const LocalId id : part_.locals.ids()) results[part_.locals[id].value] = together(id);
    return results;
  }

 private:
  const TensorType& type(ValueId id) const { return partition_.graph.value(id).type; }
  Region region(ValueId id, const Spec& spec, int rank) const {
    return region_of(type(id).shape, spec, mesh_, rank);
  }

  Numbers slice(const Numbers& whole, ValueId id, const Spec& spec, int rank) const {
    Numbers part;
    for (const std::size_t place : places(type(id).shape, region(id, spec, rank)))
      part.push_back(whole[place]);
    return part;
  }

  Numbers together(LocalId id) const {
    const mesh::LocalValue& local = part_.locals[id];
    Numbers whole(type(local.value).elements(), 0.0);
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      const Numbers& part = held_[rank].at(id);
      const auto at = places(type(local.value).shape, region(local.value, local.spec, rank));
      for (std::size_t i = 0; i < at.size(); ++i)
        whole[at[i]] = part[i] + (local.spec.is_partial() ? whole[at[i]] : 0);
    }
    return whole;
  }

  void compute(const ComputeStep& step, int rank) {
    const Node& node = partition_.graph.node(step.node);
    const FactorSignature signature = factor_signature(partition_.graph, node);
    Op op = node.op;
    for (std::size_t i = node.inputs.size(); i-- > 0;) {
      const auto at = std::ranges::find(signature.inputs[i], signature.sliced_factor);
      if (at == signature.inputs[i].end()) continue;
      const Interval range =
          region(node.inputs[i], part_.locals[step.inputs[i]].spec, rank)
              .intervals()[static_cast<std::size_t>(at - signature.inputs[i].begin())];
      op = op_of_slice(node.op, range.begin, range.size());
    }
    ReferenceRun run{op, {}, {}};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      run.inputs.push_back(&held_[rank].at(step.inputs[i]));
      run.shapes.push_back(region(node.inputs[i], part_.locals[step.inputs[i]].spec, rank).shape());
    }
    held_[rank][step.outputs[0]] = references().at(node.op.kind)(run);
  }

  const mesh::Partition& partition_;
  const mesh::DeviceMesh& mesh_;
  const mesh::MeshPartition& part_;
  std::vector<std::map<LocalId, Numbers>> held_;  ///< Values of each rank.
};

}  // namespace

Values evaluate_in_double(const Graph& graph, Values values) {
  for (const Node& node : graph.nodes()) {
    ReferenceRun run{node.op, {}, {}};
    for (const ValueId input : node.inputs) {
      run.inputs.push_back(&values.at(input));
      run.shapes.push_back(graph.value(input).type.shape);
    }
    values[node.outputs[0]] = references().at(node.op.kind)(run);
  }
  return values;
}

Values evaluate_shards_in_double(const mesh::Partition& partition, const Values& values) {
  return Devices(partition).run(values);
}

}  // namespace weft::test
