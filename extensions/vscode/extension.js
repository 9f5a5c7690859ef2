// Drawbridge's guard in VS Code: it answers `drawbridge hook` about what is open and unsaved in this window.
'use strict';

const vscode = require('vscode');

const { Window } = require('./methods');
const { pathOf } = require('./paths');
const { serve } = require('./server');
const { Sockets } = require('./sockets');
const { Status } = require('./status');

/** @type {?Sockets} */
let sockets = null;

/** @param {Object} context the vscode.ExtensionContext */
async function activate(context) {
  const isWorkspaceSide = context.extension.extensionKind === vscode.ExtensionKind.Workspace;
  const onRemote = isWorkspaceSide && vscode.env.remoteName !== undefined;
  const toPath = (uri) => pathOf(uri, onRemote);
  const window = new Window(vscode, toPath);
  const methods = window.methods();
  const status = new Status(vscode);
  sockets = new Sockets(async (socket) => {
    const why = await serve(socket, methods, (said) => status.answered(said));
    if (why) status.log(`a connection was ended: ${why}`);
  });
  const follow = async () => {
    const folders = (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => toPath(uri));
    await sockets.follow(folders.filter((folder) => folder !== null));
    status.listens(sockets.open, sockets.problems);
  };
  context.subscriptions.push(
    window,
    status,
    vscode.workspace.onDidChangeWorkspaceFolders(follow),
    vscode.commands.registerCommand('drawbridge.showStatus', () => status.show()),
    vscode.commands.registerCommand('drawbridge.restart', async () => {
      sockets.close();
      await follow();
      status.show();
    }),
  );
  await follow();
}

function deactivate() {
  sockets?.close();
}

module.exports = { activate, deactivate };
