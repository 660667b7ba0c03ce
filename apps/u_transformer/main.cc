// Trains a U-Transformer on slices of a head, on the meshes of a run file. Started by `weft run
// apps/u_transformer/two_meshes.yaml`.
#include "apps/train/serve_training.h"
#include "apps/u_transformer/u_transformer_app.h"

int main(int argc, char** argv) {
  weft::apps::UTransformerApp app;
  return weft::apps::serve_training(argc, argv, app);
}
