#include "apps/train/internal/layout_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::apps {
namespace {

/// Returns text such as "data 1 x tensor 2".
std::string shape_text(const mesh::MeshConfig& mesh) {
  std::string axes;
  for (const MeshAxis& axis : mesh.axes)
    axes += fmt::format("{}{} {}", axes.empty() ? "" : " x ", axis.name, axis.size);
  return axes;
}

}  // namespace

std::string stages_text(const mesh::ParallelConfig& layout) {
  std::string text;
  for (const mesh::StageConfig& stage : layout.stages) {
    const mesh::MeshConfig& mesh = layout.meshes[stage.mesh];
    text += fmt::format("{}{} ({}; {} {})", text.empty() ? "" : " -> ", mesh.name, shape_text(mesh),
                        stage.layers, stage.layers == 1 ? "layer" : "layers");
  }
  return text;
}

std::string meshes_text(const mesh::ParallelConfig& layout) {
  std::string text;
  for (const mesh::MeshConfig& mesh : layout.meshes)
    text += fmt::format(
        "{}{} on {}", text.empty() ? "" : ", ", mesh.name,
        mesh.hosts.empty() ? "all hosts" : fmt::format("{}", fmt::join(mesh.hosts, " + ")));
  return text;
}

std::string pipeline_text(const mesh::ParallelConfig& layout) {
  const std::string& schedule = layout.own_schedule ? layout.own_schedule->name : layout.schedule;
  const bool shared = layout.vocabulary != mesh::VocabularyMode::kLast;
  return fmt::format("{}{}, {} microbatches{}, resharding by {}", schedule,
                     shared ? fmt::format(", vocabulary by {}", to_string(layout.vocabulary)) : "",
                     layout.microbatches,
                     layout.duplex == mesh::Duplex::kOff
                         ? ""
                         : fmt::format(", duplex {}", to_string(layout.duplex)),
                     transfer::to_string(layout.resharding));
}

}  // namespace weft::apps
