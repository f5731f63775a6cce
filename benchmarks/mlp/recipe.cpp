#include "recipe.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace bench {

std::string sizes_text(const Recipe& recipe) {
  std::ostringstream out;
  for (std::size_t i = 0; i < recipe.sizes.size(); ++i) {
    out << (i == 0 ? "" : "-") << recipe.sizes[i];
  }
  return out.str();
}

std::string words(const Recipe& recipe) {
  std::ostringstream out;
  out << "threads=" << recipe.threads << " sizes=" << sizes_text(recipe)
      << " activation=" << recipe.activation << " drop=" << recipe.drop << " batch=" << recipe.batch
      << " optimizer=" << recipe.optimizer << " lr=" << recipe.lr << " momentum=" << recipe.momentum
      << " items=" << recipe.items << " load=" << (recipe.load ? 1 : 0);
  return out.str();
}

Recipe parse(int argc, char** argv) {
  Recipe recipe;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const std::string value(equals == word.npos ? "" : word.substr(equals + 1));
    if (key == "data") {
      recipe.data = value;
    } else if (key == "threads") {
      recipe.threads = std::atoi(value.c_str());
    } else if (key == "sizes") {
      std::istringstream list(value);
      for (std::string size; std::getline(list, size, '-');) {
        recipe.sizes.push_back(std::atoll(size.c_str()));
      }
    } else if (key == "activation") {
      recipe.activation = value;
    } else if (key == "drop") {
      recipe.drop = std::atof(value.c_str());
    } else if (key == "batch") {
      recipe.batch = std::atoll(value.c_str());
    } else if (key == "optimizer") {
      recipe.optimizer = value;
    } else if (key == "lr") {
      recipe.lr = std::atof(value.c_str());
    } else if (key == "momentum") {
      recipe.momentum = std::atof(value.c_str());
    } else if (key == "items") {
      recipe.items = std::atoll(value.c_str());
    } else if (key == "load") {
      recipe.load = value != "0";
    } else {
      std::fprintf(stderr,
                   "%s: \"%s\" is no part of a recipe; bench_cpu_mlp --commands shows some\n",
                   argv[0], argv[i]);
      std::exit(2);
    }
  }
  if (recipe.data.empty() || recipe.sizes.size() < 2 || recipe.items < recipe.batch ||
      recipe.batch < 1) {
    std::fprintf(stderr,
                 "usage: %s data=FOLDER sizes=784-128-10 batch=32 items=60000 [threads=1] "
                 "[activation=relu] [drop=0.1] [optimizer=sgd] [lr=0.05] [momentum=0.9] [load=1]\n",
                 argv[0]);
    std::exit(2);
  }
  return recipe;
}

}  // namespace bench
