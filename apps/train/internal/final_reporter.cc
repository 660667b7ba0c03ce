#include "apps/train/internal/final_reporter.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <system_error>

#include "apps/run_files/safetensors.h"
#include "apps/train/model_parameters.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/units.h"

namespace weft::apps {
namespace fs = std::filesystem;

FinalReporter::~FinalReporter() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

fs::path FinalReporter::write_parameters() {
  mesh::TrainingEngine& engine = loop_.engine;
  temporary_ = loop_.environment.directory.path() / ".shown.safetensors";
  try {
    if (engine.supports_copies()) engine.copy_state();
    SafetensorsWriter values(temporary_, parameter_list(engine.graph()));
    engine.gather([&](const StateSlice& piece, std::span<const float> part) {
      if (piece.block == StateBlock::kValue) values.write(piece.parameter, piece.first, part);
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    note_failure(error.message());
    return {};
  }
  return temporary_;
}

void FinalReporter::make_report(const fs::path& file, const std::optional<BestParameters>& best) {
  loop_.report_activity("the training is done and saved; making the final report");
  const std::uint64_t needed = loop_.run.parameters * sizeof(float);
  if (const auto free = available_memory(); free && needed > *free)
    return note_failure(
        fmt::format("its parameters take {}, and this machine has {} of memory free",
                    format_bytes(needed), format_bytes(*free)));
  const RunDirectory& directory = loop_.environment.directory;
  FinalReport& report = loop_.summary.report;
  try {
    const SafetensorsFile values(file);
    TrainedValues trained{.parameters = values.tensors(), .step = loop_.summary.steps};
    std::optional<SafetensorsFile> best_values;
    if (best && best->step() > 0) {
      trained.best = &best_values.emplace(best->path()).tensors();
      trained.best_step = best->step();
    }
    report = loop_.run.report_on_model(trained, directory.path());
  } catch (...) {
    return note_failure(current_error().message());
  }
  try {
    write_atomically(report.prose ? directory.sample() : directory.scores(), report.text + "\n",
                     0666);
  } catch (const Error& error) {
    loop_.progress.note("  " + error.message());  // the screen shows the report anyway
  }
}

void FinalReporter::note_failure(const std::string& why) {
  loop_.progress.note("  the run is done, but the final report failed: " + why);
}

}  // namespace weft::apps
