// Trains a GPT on text, on the meshes of a run file. Started by `weft run cluster.yaml`.
#include "apps/gpt/gpt_app.h"
#include "apps/train/serve_training.h"

int main(int argc, char** argv) {
  weft::apps::GptApp app;
  return weft::apps::serve_training(argc, argv, app);
}
