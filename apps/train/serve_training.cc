#include "apps/train/serve_training.h"

#include <cstddef>
#include <span>

#include "actors/launch/app_main.h"
#include "apps/train/internal/check_training.h"
#include "apps/train/internal/drive_training.h"
#include "apps/train/internal/plan_training.h"
#include "apps/train/run_config.h"
#include "mesh/executor/pipeline_executor.h"

namespace weft::apps {

int serve_training(int argc, char** argv, TrainingApp& app) {
  actors::AppMain main(argc, argv);
  main.provide<mesh::DeviceActor>(mesh::make_device_actors(
      [&app](std::span<const std::byte> prepared) { return app.open_batches(prepared); }));
  main.on_check([&app](const actors::AppRun& run) { return check_training(run, app); });
  main.on_keys([&app](const ConfigDocument& document) { read_run_file(document, app); });
  main.on_plan([&app](const actors::AppRun& run) { return plan_training(run, app); });
  main.allow_restarts();
  return main.run([&app](actors::Cluster& cluster, const actors::AppRun& run) {
    return drive_training(cluster, run, app);
  });
}

}  // namespace weft::apps
