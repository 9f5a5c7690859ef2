// Formats Lua with StyLua: `node lua.mjs PACKAGE check|write FILE…`, where PACKAGE is StyLua's folder in node_modules.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [folder, verb, ...files] = process.argv.slice(2);
const { Config, formatCode, IndentType, LuaVersion, OutputVerification, QuoteStyle } = createRequire(import.meta.url)(folder);

function formatted(text) {
  const config = Config.new(); // formatCode takes ownership of it
  config.column_width = 120;
  config.indent_type = IndentType.Spaces;
  config.indent_width = 2;
  config.quote_style = QuoteStyle.AutoPreferSingle;
  config.syntax = LuaVersion.Lua51;
  return formatCode(text, config, undefined, OutputVerification.None);
}

let isFormatted = true;
for (const file of files) {
  const text = readFileSync(file, 'utf8');
  const wanted = formatted(text);
  if (wanted === text) continue;
  if (verb === 'write') {
    writeFileSync(file, wanted);
  } else {
    console.error(`Would reformat: ${file}`);
    isFormatted = false;
  }
}
process.exitCode = isFormatted ? 0 : 1;
