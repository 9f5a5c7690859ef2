// Runs code from the tests inside the extension host. Each line on its socket is a JSON object {"id", "code",
// "argument"}, where `code` is the body of an async function with the parameters `vscode`, `argument`, `kept` and
// `require`. `kept` is an object that lives as long as the extension host.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const readline = require('node:readline');
const vscode = require('vscode');

const kept = {};
const AsyncFunction = (async () => {}).constructor;

async function answer(line) {
  const { id, code, argument } = JSON.parse(line);
  try {
    const result = await new AsyncFunction('vscode', 'argument', 'kept', 'require', code)(
      vscode,
      argument,
      kept,
      require,
    );
    return { id, result: result === undefined ? null : result };
  } catch (error) {
    return { id, error: String(error?.stack || error) };
  }
}

/** A custom editor for *.canvas files: `kept.draw(path)` marks an open file as modified, and a save writes "drawn". */
function canvas() {
  const changed = new vscode.EventEmitter();
  const documents = new Map();
  kept.draw = (file) => changed.fire({ document: documents.get(file), undo() {}, redo() {} });
  return {
    onDidChangeCustomDocument: changed.event,
    openCustomDocument: (uri) => {
      documents.set(uri.fsPath, { uri, dispose() {} });
      return documents.get(uri.fsPath);
    },
    resolveCustomEditor: (_document, panel) => {
      panel.webview.html = 'a canvas';
    },
    saveCustomDocument: async ({ uri }) => fs.writeFileSync(uri.fsPath, 'drawn'),
    saveCustomDocumentAs: async (_document, uri) => fs.writeFileSync(uri.fsPath, 'drawn'),
    revertCustomDocument: async () => {},
    backupCustomDocument: async (_document, { destination }) => ({ id: String(destination), delete() {} }),
  };
}

exports.activate = (context) => {
  const address = path.join(process.env.DRAWBRIDGE_TEST_PROBES, `${process.pid}.sock`);
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    readline.createInterface({ input: socket }).on('line', async (line) => {
      const text = JSON.stringify(await answer(line));
      if (!socket.destroyed) socket.write(text + '\n');
    });
  });
  server.listen(address);
  context.subscriptions.push(vscode.window.registerCustomEditorProvider('probe.canvas', canvas()));
  context.subscriptions.push({
    dispose: () => {
      server.close();
      fs.rmSync(address, { force: true });
    },
  });
};
