// classifier: trains a classifier of pictures, on the meshes of a run file. Started by
// `weft run apps/classifier/fashion.yaml`; see apps/classifier for the app.
#include "apps/classifier/classifier_app.h"
#include "apps/train/serve_training.h"

int main(int argc, char** argv) {
  weft::apps::ClassifierApp app;
  return weft::apps::serve_training(argc, argv, app);
}
