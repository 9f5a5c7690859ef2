// Drawbridge in VS Code: answers the guard's requests (`drawbridge hook`) about the files that are open in this window,
// and shows what agents' runs have changed.
'use strict';

const vscode = require('vscode');

const { Changes } = require('./changes');
const { Window } = require('./methods');
const { pathOf } = require('./paths');
const { serve } = require('./server');
const { Sockets } = require('./sockets');
const { Status } = require('./status');

/** @type {InstanceType<typeof Sockets> | null} */
let sockets = null;

/** @param {import('vscode').ExtensionContext} context */
async function activate(context) {
  const isWorkspaceSide = context.extension.extensionKind === vscode.ExtensionKind.Workspace;
  const onRemote = isWorkspaceSide && vscode.env.remoteName !== undefined;
  /** @param {vscode.Uri} uri */
  const toPath = (uri) => pathOf(uri, onRemote);
  const window = new Window(vscode, toPath);
  const methods = window.methods();
  const status = new Status(vscode);
  const opened = new Sockets(async (socket) => {
    const why = await serve(socket, methods, (said) => status.answered(said));
    if (why) status.log(`closed a connection: ${why}`);
  });
  sockets = opened;
  const follow = async () => {
    const folders = (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => toPath(uri));
    await opened.follow(folders.filter((folder) => folder !== null));
    status.listens(opened.open, opened.problems);
  };
  context.subscriptions.push(
    window,
    status,
    vscode.workspace.onDidChangeWorkspaceFolders(follow),
    vscode.commands.registerCommand('drawbridge.showStatus', () => status.show()),
    vscode.commands.registerCommand('drawbridge.restart', async () => {
      opened.close();
      await follow();
      status.show();
    }),
  );
  const changes = new Changes(vscode, toPath, {
    isModified: (path) => window.isModified(path),
    log: (text) => status.log(text),
  });
  context.subscriptions.push(changes);
  await follow();
}

function deactivate() {
  sockets?.close();
}

module.exports = { activate, deactivate };
