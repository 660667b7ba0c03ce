#pragma once

#include "apps/train/training_app.h"

namespace weft::apps {

/// Serves as the main() of a training app, in every role of its executable. Borrows the app.
///
///   int main(int argc, char** argv) {
///     weft::apps::GptApp app;
///     return weft::apps::serve_training(argc, argv, app);
///   }
int serve_training(int argc, char** argv, TrainingApp& app);

}  // namespace weft::apps
