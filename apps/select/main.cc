// select: chooses training data on the workers of a run file (Böther et al., MLSys 2025). Started
// by `weft run select.yaml`; apps/selection has the algorithm.
#include "actors/launch/app_main.h"
#include "apps/select/select_app.h"
#include "apps/select/select_config.h"
#include "apps/selection/graph_worker.h"
#include "apps/selection/selection_worker.h"

int main(int argc, char** argv) {
  weft::actors::AppMain app(argc, argv);
  app.provide<weft::apps::SelectionWorker>();
  app.provide<weft::apps::GraphWorker>();
  app.on_check(weft::apps::check_select);
  app.on_plan(weft::apps::plan_select);
  app.allow_restarts();
  app.on_keys([](const weft::ConfigDocument& document) { weft::apps::read_select(document); });
  return app.run(weft::apps::drive_select);
}
