#include "mesh/layouts/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "mesh/layouts/internal/apply_layout.h"
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {
namespace {

constexpr std::array kLayouts{&kLayout1d,       &kLayout1dSequence, &kLayout2d,
                              &kLayout2Point5d, &kLayout3d,         &kLayoutFsdp};

struct RoleName {
  std::string_view name;
  std::string_view letter;
};
constexpr std::array<RoleName, 8> kRoleNames{{{"tensor", "t"},
                                              {"row", "r"},
                                              {"column", "c"},
                                              {"depth", "d"},
                                              {"weight", "i"},
                                              {"input", "j"},
                                              {"output", "l"},
                                              {"data", "data"}}};

const RoleName& name_of(Role role) { return kRoleNames[static_cast<std::size_t>(role)]; }

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidConfig, message).at("layout");
}

const LayoutDefinition& find_layout(const std::string& name) {
  for (const LayoutDefinition* layout : kLayouts)
    if (layout->name == name) return *layout;
  const std::vector<std::string> names = layout_names();
  fail(fmt::format("there is no layout '{}', only rules, {}{}", name, fmt::join(names, ", "),
                   did_you_mean(name, names)));
}

/// Assignment of a mesh's axes to the roles of a layout.
class RoleAssignment {
 public:
  RoleAssignment(const LayoutDefinition& layout, const DeviceMesh& mesh)
      : layout_(layout), mesh_(mesh) {}

  /// Gives roles the axes that the run file names.
  void give_chosen(const Roles& chosen) {
    for (const auto& [role, axis] : chosen) {
      if (!takes(role))
        fail(fmt::format("layout '{}' has no role '{}'", layout_.name, to_string(role)));
      if (!mesh_.axis(axis))
        fail(fmt::format("layout '{}': mesh {} has no axis '{}'", layout_.name, to_string(mesh_),
                         axis));
      give(role, axis);
    }
  }
  /// Gives free roles the axes that have their name or their letter. Throws if an axis of several
  /// devices is left.
  void give_by_name() {
    for (const MeshAxis& axis : mesh_.axes()) {
      if (role_of_.contains(axis.name)) continue;
      for (std::size_t r = 0; r < kRoleNames.size(); ++r) {
        const auto role = static_cast<Role>(r);
        const bool named = axis.name == kRoleNames[r].name || axis.name == kRoleNames[r].letter;
        if (named && takes(role) && !roles_.contains(role)) give(role, axis.name);
      }
      if (axis.size > 1 && !role_of_.contains(axis.name)) fail_without_role(axis);
    }
  }
  /// Returns the axis of each role. Throws if a role of the layout has none.
  const Roles& complete() const {
    for (const Role role : layout_.roles) {
      if (!roles_.contains(role))
        fail(
            fmt::format("layout '{}' on mesh {}: no axis has the role '{}'; name one '{}' or "
                        "'{}', or say `layout: {{name: {}, {}: AXIS}}`",
                        layout_.name, to_string(mesh_), to_string(role), to_string(role),
                        short_name_of(role), layout_.name, to_string(role)));
    }
    return roles_;
  }

 private:
  bool takes(Role role) const {
    return role == Role::kData || std::ranges::find(layout_.roles, role) != layout_.roles.end();
  }
  void give(Role role, const std::string& axis) {
    const auto [at, is_new] = role_of_.emplace(axis, role);
    if (!is_new)
      fail(fmt::format(
          "layout '{}' on mesh {}: axis '{}' cannot be {} and {}; give each role an axis of its "
          "own",
          layout_.name, to_string(mesh_), axis, to_string(at->second), to_string(role)));
    roles_[role] = axis;
  }
  [[noreturn]] void fail_without_role(const MeshAxis& axis) const {
    std::vector<std::string_view> free;
    for (const Role role : layout_.roles) free.push_back(to_string(role));
    free.push_back("data");
    fail(
        fmt::format("layout '{}' on mesh {}: axis '{}' has no role; name it after one ({}), or "
                    "say `layout: {{name: {}, {}: {}}}`",
                    layout_.name, to_string(mesh_), axis.name, fmt::join(free, ", "), layout_.name,
                    to_string(layout_.roles.front()), axis.name));
  }

  const LayoutDefinition& layout_;
  const DeviceMesh& mesh_;
  Roles roles_;
  std::map<std::string, Role> role_of_;  ///< Roles by axis.
};

/// Returns the axis of each role of the layout.
Roles roles_of(const LayoutDefinition& layout, const LayoutChoice& choice, const DeviceMesh& mesh) {
  RoleAssignment assignment(layout, mesh);
  assignment.give_chosen(choice.roles);
  assignment.give_by_name();
  return assignment.complete();
}

}  // namespace

LayoutAxes axes_of(const LayoutChoice& choice, const DeviceMesh& mesh) {
  const LayoutDefinition& layout = find_layout(choice.name);
  AxesOf axis;
  for (const auto& [role, name] : roles_of(layout, choice, mesh)) {
    const int index = *mesh.axis(name);
    if (mesh.axes()[index].size > 1) axis[role] = {index};
  }
  LayoutAxes axes = layout.axes(axis);
  const auto& data = axis[Role::kData];
  axes.tokens.insert(axes.tokens.begin(), data.begin(), data.end());
  const bool shards_data = choice.shard_data || &layout == &kLayoutFsdp;
  for (std::size_t a = 0; a < mesh.axes().size(); ++a) {
    const auto index = static_cast<int>(a);
    const bool is_data = std::ranges::find(data, index) != data.end();
    const bool is_known =
        std::ranges::find(axes.parameter_axes, index) != axes.parameter_axes.end();
    if (mesh.axes()[a].size > 1 && !is_known && (!is_data || shards_data))
      axes.parameter_axes.push_back(index);
  }
  return axes;
}

std::string_view to_string(Role role) { return name_of(role).name; }
std::span<const Role> all_roles() {
  static constexpr std::array kRoles{Role::kTensor, Role::kRow,   Role::kColumn, Role::kDepth,
                                     Role::kWeight, Role::kInput, Role::kOutput, Role::kData};
  return kRoles;
}
std::string_view short_name_of(Role role) { return name_of(role).letter; }

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const LayoutDefinition* layout : kLayouts) names.emplace_back(layout->name);
  return names;
}

FeatureSplits feature_splits(const LayoutChoice& choice, const DeviceMesh& mesh) {
  const LayoutAxes axes = axes_of(choice, mesh);
  return {num_parts(axes.contract.n, mesh), num_parts(axes.expand.n, mesh),
          num_parts(axes.contract.k, mesh)};
}

ShardingStrategy layout_strategy(const MeshGraph& part, const LayoutChoice& choice) {
  const LayoutAxes axes = axes_of(choice, part.mesh);
  try {
    return apply_layout(part, axes, choice.gather.value_or(GatherFrequency::kMicrobatch));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig) throw;
    fail(fmt::format("layout '{}': {}", choice.name, error.message()));
  }
}

}  // namespace weft::mesh
