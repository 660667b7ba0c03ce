// classifier: trains an image classifier on the meshes of a run file. Start it with `weft run
// apps/classifier/fashion.yaml`.
#include "apps/classifier/classifier_app.h"
#include "apps/train/serve_training.h"

int main(int argc, char** argv) {
  weft::apps::ClassifierApp app;
  return weft::apps::serve_training(argc, argv, app);
}
