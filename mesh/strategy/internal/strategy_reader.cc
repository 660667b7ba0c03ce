#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/ops/op_definition.h"
#include "mesh/strategy/internal/strategy_lines.h"
#include "mesh/strategy/strategy_text.h"

namespace weft::mesh {
namespace {

/// Limit of problems in one error message.
constexpr std::size_t kMostProblems = 10;

std::string shape_text(const std::vector<MeshAxis>& axes) {
  std::string text;
  for (const MeshAxis& axis : axes)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis.name, axis.size);
  return text;
}

/// Spec of a tensor, with the positions of its text.
struct PlacedSpec {
  LocatedText at;
  Spec spec;
  std::vector<LocatedText> dims;
};

/// Contents of an op's line.
struct OpSpecsText {
  std::vector<PlacedSpec> inputs, outputs;
  std::vector<int> partial_axes;
};

/// Reader of specs from a line, left to right.
class SpecScanner {
 public:
  SpecScanner(const std::string& source, const DeviceMesh& mesh, const LocatedText& text)
      : source_(source), mesh_(mesh), rest_(text.trimmed()) {}

  bool at_end() const { return rest_.text.empty(); }
  [[noreturn]] void fail_here(const std::string& message) const {
    fail_at(source_, rest_, message);
  }
  bool take(std::string_view word) {
    if (!rest_.text.starts_with(word)) return false;
    rest_ = rest_.sub(word.size()).trimmed();
    return true;
  }
  /// Reads a spec such as "[l+i,-,j]".
  PlacedSpec spec() {
    const std::size_t close = rest_.text.find(']');
    if (!rest_.text.starts_with('[') || close == std::string_view::npos)
      fail_here(fmt::format("expected the axes of each dimension, as in [-,{}], found '{}'",
                            mesh_.axes().front().name, rest_.text));
    PlacedSpec result{rest_.sub(0, close + 1), {}, {}};
    const LocatedText inside = rest_.sub(1, close - 1);
    if (!inside.trimmed().text.empty()) {
      for (const LocatedText& part : split(inside, ',')) {
        result.dims.push_back(part.trimmed());
        result.spec.dims.push_back(axes(part.trimmed()));
      }
    }
    rest_ = rest_.sub(close + 1).trimmed();
    return result;
  }
  /// Reads axes such as "partial(i+j)", if there are any. Returns them ascending.
  std::vector<int> partial() {
    if (!take("partial(")) return {};
    const std::size_t close = rest_.text.find(')');
    if (close == std::string_view::npos) fail_here("expected ')' after the axes of partial sums");
    std::vector<int> result = axes(rest_.sub(0, close).trimmed());
    rest_ = rest_.sub(close + 1).trimmed();
    std::ranges::sort(result);
    return result;
  }

 private:
  /// Reads axes such as "l+i" or "-". Leaves out axes of size 1, which split nothing.
  std::vector<int> axes(const LocatedText& text) const {
    std::vector<int> result;
    if (text.text == "-") return result;
    for (const LocatedText& part : split(text, '+')) {
      const LocatedText name = part.trimmed();
      const auto axis = mesh_.axis(name.text);
      if (!axis) {
        std::vector<std::string> names;
        for (const MeshAxis& known : mesh_.axes()) names.push_back(known.name);
        fail_at(source_, name,
                fmt::format("mesh {} has no axis '{}', only {}{}; '-' is a dimension that stays "
                            "whole",
                            to_string(mesh_), name.text, fmt::join(names, ", "),
                            did_you_mean(name.text, names)));
      }
      if (mesh_.axes()[*axis].size > 1) result.push_back(*axis);
    }
    return result;
  }

  const std::string& source_;
  const DeviceMesh& mesh_;
  LocatedText rest_;
};

/// Reader of a strategy's lines, which collects problems. Used once.
class StrategyReader {
 public:
  StrategyReader(const MeshGraph& part, const StrategyText& text)
      : part_(part), graph_(part.graph), text_(text), names_(names_of_values(part.graph)) {
    for (const NodeId id : part.nodes) {
      const Node& node = graph_.node(id);
      has_backward_ = has_backward_ || node.pass != Pass::kForward;
      nodes_[names_[node.outputs.front().value()]] = id;
      for (const ValueId value : node.inputs) values_[names_[value.value()]] = value;
      for (const ValueId value : node.outputs) values_[names_[value.value()]] = value;
    }
    result_.gather = text.gather;
  }

  ShardingStrategy read() {
    const std::vector<LocatedText> lines = lines_of(text_.text);
    for (const LocatedText& line : lines) {
      const auto parts = line_of(line);
      if (!parts) continue;
      if (parts->keyword.text == "mesh") check_mesh(parts->rest);
      else attempt([&] { take(*parts); });
    }
    check_graph();
    if (problems_.empty()) add_left_out_ops();
    attempt([&] { check_homes(lines.back()); });
    if (problems_.empty()) return std::move(result_);
    if (problems_.size() > kMostProblems) {
      const std::size_t more = problems_.size() - kMostProblems;
      problems_.resize(kMostProblems);
      problems_.push_back(fmt::format("{}: and {} more", text_.source, more));
    }
    throw Error(ErrorCode::kInvalidConfig, fmt::format("{}", fmt::join(problems_, "\n")));
  }

 private:
  [[noreturn]] void fail(const LocatedText& at, const std::string& message) const {
    fail_at(text_.source, at, message);
  }

  template <typename Read>
  void attempt(const Read& read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidConfig) throw;
      problems_.push_back(error.message());
    }
  }

  void take(const StrategyLine& line) {
    const bool is_op = line.keyword.text == "op";
    if (!is_op && line.keyword.text != "home") return;
    const std::size_t open = line.rest.text.find('[');
    if (open == std::string_view::npos)
      fail(line.rest, is_op ? "expected 'op NAME [AXES,...] ... -> [AXES,...]'"
                            : "expected 'home NAME [AXES,...]'");
    const LocatedText name = line.rest.sub(0, open).trimmed();
    SpecScanner specs(text_.source, part_.mesh, line.rest.sub(open));
    ++named_;
    if (is_op) take_op(name, specs);
    else take_home(name, specs);
    if (!specs.at_end()) specs.fail_here("unexpected text at the end of this line");
  }

  /// Fails for other mesh sizes at once, as most other problems would follow from them.
  void check_mesh(const LocatedText& at) const {
    if (text_.axes != part_.mesh.axes())
      fail(at,
           fmt::format("this strategy is for a mesh of {}, and '{}' has {}", shape_text(text_.axes),
                       part_.mesh.name(), shape_text(part_.mesh.axes())));
  }

  /// Looks a name up. Returns nothing if it is unknown but may name a backward value of a
  /// forward-only graph.
  template <typename Id>
  std::optional<Id> find(const std::map<std::string, Id>& known, const LocatedText& name,
                         std::string_view what) {
    const auto found = known.find(std::string(name.text));
    if (found != known.end()) return found->second;
    if (!has_backward_) return std::nullopt;
    ++unknown_;
    std::vector<std::string> names;
    for (const auto& [one, id] : known) names.push_back(one);
    fail(name, fmt::format("mesh '{}' has no {} '{}'{}", part_.mesh.name(), what, name.text,
                           did_you_mean(name.text, names)));
  }

  /// Fails if an earlier line was for the same value or op.
  template <typename Id>
  void claim(std::map<Id, LocatedText>& places, Id id, const LocatedText& name) const {
    const auto [at, is_new] = places.emplace(id, name);
    if (!is_new)
      fail(name, fmt::format("'{}' was already given in line {}", name.text, at->second.line));
  }

  void take_home(const LocatedText& name, SpecScanner& specs) {
    const auto id = find(values_, name, "value");
    PlacedSpec home = specs.spec();
    if (!id) return;
    claim(home_places_, *id, name);
    const Value& value = graph_.value(*id);
    check_rank(home, value.name, value.type.shape);
    std::set<int> used;
    for (std::size_t d = 0; d < home.spec.dims.size(); ++d) {
      for (const int axis : home.spec.dims[d])
        if (!used.insert(axis).second)
          fail(home.dims[d],
               fmt::format("axis '{}' is used twice; an axis splits one dimension of a value",
                           part_.mesh.axes()[axis].name));
      const std::int64_t split = num_parts(home.spec.dims[d], part_.mesh),
                         size = value.type.shape[d];
      if (size % split != 0)
        fail(home.dims[d],
             fmt::format("dimension {} of '{}' {} does not divide {} ways over {}; the next number "
                         "that does is {}",
                         d, value.name, weft::to_string(value.type.shape), split,
                         axes_text(home.spec.dims[d], part_.mesh),
                         (size + split - 1) / split * split));
    }
    result_.storage_specs[*id] = std::move(home.spec);
  }

  void check_rank(const PlacedSpec& spec, const std::string& name, const Shape& shape) const {
    if (spec.spec.dims.size() != shape.size())
      fail(spec.at, fmt::format("'{}' {} has {} dimensions, not {}", name, weft::to_string(shape),
                                shape.size(), spec.spec.dims.size()));
  }

  void take_op(const LocatedText& name, SpecScanner& specs) {
    const auto id = find(nodes_, name, "op");
    OpSpecsText read;
    while (!specs.at_end() && !specs.take("->")) read.inputs.push_back(specs.spec());
    while (!specs.at_end()) {
      if ((read.partial_axes = specs.partial()); !read.partial_axes.empty()) break;
      read.outputs.push_back(specs.spec());
    }
    if (!id) return;
    claim(op_places_, *id, name);
    const Node& node = graph_.node(*id);
    const FactorSignature signature = factor_signature(graph_, node);
    if (read.inputs.size() != node.inputs.size() || read.outputs.size() != node.outputs.size())
      fail(name,
           fmt::format("{} '{}' has {} inputs and {} outputs: expected a line such as 'op {} {}'",
                       weft::to_string(node.op.kind), name.text, node.inputs.size(),
                       node.outputs.size(), name.text,
                       specs_text(signature, unsplit_sharding(signature), part_.mesh)));
    result_.ops[*id] = sharding_of(node, signature, read);
    check_at(name, *id);
  }

  /// Runs check_op_sharding() for an op; adds the position to its error.
  void check_at(const LocatedText& at, NodeId id) const {
    try {
      check_op_sharding(part_, id, result_.ops.at(id));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidConfig) throw;
      fail(at, error.message());
    }
  }

  /// Reads the sharding, factor by factor. All dimensions of a factor must agree.
  OpSharding sharding_of(const Node& node, const FactorSignature& signature,
                         const OpSpecsText& read) const {
    OpSharding sharding = unsplit_sharding(signature);
    struct Said {
      const LocatedText* at = nullptr;
      ValueId value;
      std::size_t dimension = 0;
    };
    std::vector<Said> said(signature.factors.size());
    const auto add = [&](const std::vector<ValueId>& values,
                         const std::vector<std::vector<int>>& factors,
                         const std::vector<PlacedSpec>& specs) {
      for (std::size_t t = 0; t < values.size(); ++t) {
        const Value& value = graph_.value(values[t]);
        check_rank(specs[t], value.name, value.type.shape);
        for (std::size_t d = 0; d < factors[t].size(); ++d) {
          const int factor = factors[t][d];
          if (said[factor].at == nullptr) {
            said[factor] = {&specs[t].dims[d], values[t], d};
            sharding.axes[factor] = specs[t].spec.dims[d];
          } else if (sharding.axes[factor] != specs[t].spec.dims[d]) {
            fail(specs[t].dims[d],
                 fmt::format("dimension {} of '{}' is dimension {} of '{}' in this op: they must "
                             "be split alike, not by {} and {}",
                             d, value.name, said[factor].dimension,
                             graph_.value(said[factor].value).name, specs[t].dims[d].text,
                             said[factor].at->text));
          }
        }
      }
    };
    add(node.inputs, signature.inputs, read.inputs);
    add(node.outputs, signature.outputs, read.outputs);
    const bool linear = std::ranges::any_of(signature.linear_in, [&](const auto& inputs) {
      return inputs.size() == node.inputs.size();
    });
    if (!read.partial_axes.empty() && !linear)
      fail(read.inputs.front().at,
           fmt::format("{} cannot take partial sums: it is not linear in all its inputs together",
                       weft::to_string(node.op.kind)));
    sharding.partial_axes = read.partial_axes;
    return sharding;
  }

  /// Replaces the problems by one sentence if most names are unknown.
  void check_graph() {
    if (unknown_ * 2 <= named_) return;
    problems_ = {
        fmt::format("{}:1:1: this strategy is for another graph: {} of its {} lines name "
                    "values and ops that mesh '{}' does not have; the first: {}",
                    text_.source, unknown_, named_, part_.mesh.name(), problems_.front())};
  }

  void add_left_out_ops() {
    for (const bool forward : {true, false}) {
      for (const NodeId id : part_.nodes) {
        const Node& node = graph_.node(id);
        if ((node.pass == Pass::kForward) != forward || result_.ops.contains(id)) continue;
        const auto of = node.forward ? result_.ops.find(*node.forward) : result_.ops.end();
        const bool inherits = of != result_.ops.end();
        result_.ops[id] = default_sharding(graph_, node, inherits ? &of->second : nullptr);
        const auto at = inherits ? op_places_.find(of->first) : op_places_.end();
        attempt([&] { check_at(at == op_places_.end() ? LocatedText{} : at->second, id); });
      }
    }
  }

  /// Checks that values not computed on this mesh have a home.
  void check_homes(const LocatedText& end) {
    std::set<ValueId> computed;
    for (const NodeId id : part_.nodes)
      computed.insert(graph_.node(id).outputs.begin(), graph_.node(id).outputs.end());
    for (const auto& [name, id] : values_) {
      if (computed.contains(id) || home_places_.contains(id)) continue;
      const std::string whole_spec =
          to_string(Spec::replicated(graph_.value(id).type.shape.size()), part_.mesh);
      attempt([&, name = name] {
        fail(end, fmt::format("'{}' is not computed on mesh '{}' and has no home; say how it is "
                              "kept, as in 'home {} {}'",
                              name, part_.mesh.name(), name, whole_spec));
      });
    }
  }

  const MeshGraph& part_;
  const Graph& graph_;
  const StrategyText& text_;
  const std::vector<std::string> names_;
  std::map<std::string, ValueId> values_;
  std::map<std::string, NodeId> nodes_;
  bool has_backward_ = false;
  std::map<ValueId, LocatedText> home_places_;
  std::map<NodeId, LocatedText> op_places_;
  std::size_t named_ = 0;
  std::size_t unknown_ = 0;
  std::vector<std::string> problems_;
  ShardingStrategy result_;
};

}  // namespace

ShardingStrategy strategy_of(const MeshGraph& part, const StrategyText& text) {
  return StrategyReader(part, text).read();
}

}  // namespace weft::mesh
