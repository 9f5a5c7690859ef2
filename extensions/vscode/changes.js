// The undecided changes of runs: a list in the Source Control view, VS Code's own diff, and the user's decisions.
//
// The server stores the reviews and carries out the decisions. Nothing here writes a file.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const model = require('./review_model');
const { hunksOf, ReviewVisits } = require('./review_visits');
const {
  allWords,
  counted,
  harmless,
  NEW,
  NOTHING,
  onlyNewWords,
  OTHERS_HIDDEN,
  refusedWords,
  words,
} = require('./review_words');
const { SeenChanges } = require('./seen_changes');
const { Refused, ServerLink } = require('./server_link');
const { TextsBefore } = require('./texts_before');

const VIEW = 'drawbridge.changes';

/** The maximum number of unreadable reviews for which the reason is shown. */
const MOST_UNREAD = 3;

/** The context key that is true while there are changes to review. It shows the list and the commands for changes. */
const HAS_CHANGES = 'drawbridge.hasChanges';

/** The context key that is true while some of the changes are new and others are not. */
const HAS_NEW = 'drawbridge.hasNewChanges';

/** The context key that is true while the user wants to see only the new changes. */
const ONLY_NEW = 'drawbridge.onlyNewChanges';

const DISCONNECTED = 'The connection to the agent server was lost. You can decide on changes when it is back.';

/** The warning for a command without its list entry. VS Code passes no entry while it reads the list again. */
const MOVED = 'the list has just changed, or no change is selected. Select a change, then try again.';

/** Milliseconds for which a message in the status bar is shown. */
const SHOWN = 6000;

/**
 * @typedef {import('./review_model').Node} Node
 * @typedef {import('./review_model').Placed} Placed
 * @typedef {import('./review_words').Decision} Decision
 */

class Changes {
  /**
   * @param {typeof import('vscode')} vscode the API
   * @param {import('./paths').PathOf} pathOf
   * @param {{isModified: (path: string) => Promise<boolean>, log: (text: string) => void}} around `isModified`: whether
   *   a file has unsaved changes in this window
   */
  constructor(vscode, pathOf, around) {
    this._vscode = vscode;
    this._pathOf = pathOf;
    this._around = around;
    /** @type {Placed[]} */
    this._reviews = [];
    /** @type {Placed[]} the reviews as they are listed: perhaps with only their new changes */
    this._shown = [];
    this._fingerprint = '';
    /** @type {string[]} why reviews are not shown */
    this._unread = [];
    this._visits = new ReviewVisits();
    /** @type {Set<string>} the directories whose reviews the user has visited */
    this._visited = new Set();
    /** @type {Set<string>} the directories whose notice was shown here */
    this._noticed = new Set();
    this._isLost = false;
    /** @type {Node[]} */
    this._nodes = [];
    /** @type {Map<string, Node>} files of the list by their paths in this window */
    this._files = new Map();
    this._isStale = false;
    /**
     * @type {Map<string, Set<string>>} who has decided since the reviews were read, by project, or '' if the review has
     *   changed in another way
     */
    this._deciders = new Map();
    /** @type {Promise<unknown>} One request is under way at a time, so that what is shown last is the newest. */
    this._turn = Promise.resolve();
    /** @type {import('vscode').EventEmitter<Node | undefined>} */
    this._listChanged = new vscode.EventEmitter();
    this._texts = new TextsBefore(
      vscode,
      (project, name) => this._fileOf(project, name),
      () => this._outdated(),
    );
    this._link = new ServerLink({
      about: () => this._about(),
      connected: (isConnected) => this._connected(isConnected),
      changed: ({ project, by }) => {
        this._deciders.set(project, new Set([...(this._deciders.get(project) ?? []), by]));
        this._outdated();
      },
      log: around.log,
    });
    this._view = vscode.window.createTreeView(VIEW, {
      treeDataProvider: {
        onDidChangeTreeData: this._listChanged.event,
        getChildren: (node) => (node ? node.children : this._nodes),
        getTreeItem: (node) => this._item(node),
      },
      showCollapseAll: true,
    });
    this._seen = new SeenChanges(
      vscode,
      (original) => this._diffOf(original),
      (project, hunks) => this._saw(project, hunks),
    );
    const { commands, workspace, window } = vscode;
    this._parts = [
      ...[this._link, this._texts, this._view, this._listChanged, this._seen],
      this._view.onDidChangeVisibility(({ visible }) => visible && this._opened()),
      this._view.onDidChangeSelection(({ selection }) => this._selected(selection)),
      workspace.onDidGrantWorkspaceTrust(() => this._start()),
      workspace.onDidChangeWorkspaceFolders(() => this._foldersChanged()),
      workspace.onDidSaveTextDocument(({ uri }) => this._saved(uri)),
      window.onDidChangeWindowState(({ focused }) => focused && this._start()),
      commands.registerCommand('drawbridge.openChange', (node) => this._open(node)),
      commands.registerCommand('drawbridge.showChanges', () => this._show()),
      commands.registerCommand('drawbridge.keepChange', (node) => this._decide('keep', node, true)),
      commands.registerCommand('drawbridge.undoChange', (node) => this._decide('undo', node, true)),
      commands.registerCommand('drawbridge.keepFile', (node) => this._decide('keep', node, false)),
      commands.registerCommand('drawbridge.undoFile', (node) => this._decide('undo', node, false)),
      commands.registerCommand('drawbridge.keepChangeAtCursor', () => this._decideAtCursor('keep', true)),
      commands.registerCommand('drawbridge.undoChangeAtCursor', () => this._decideAtCursor('undo', true)),
      commands.registerCommand('drawbridge.keepThisFile', () => this._decideAtCursor('keep', false)),
      commands.registerCommand('drawbridge.undoThisFile', () => this._decideAtCursor('undo', false)),
      commands.registerCommand('drawbridge.keepAllChanges', () => this._keepAll()),
      commands.registerCommand('drawbridge.showOnlyNewChanges', () => this._showOnlyNew(true)),
      commands.registerCommand('drawbridge.showAllChanges', () => this._showOnlyNew(false)),
    ];
    this._start();
  }

  dispose() {
    for (const part of this._parts) part.dispose();
  }

  // The methods for the connection to the server.

  /** Searches for a server, unless one is connected, no folder is open, or the user does not trust the workspace. */
  _start() {
    const { isTrusted, workspaceFolders } = this._vscode.workspace;
    if (isTrusted && workspaceFolders?.length && !this._link.isConnected) void this._link.look();
  }

  _about() {
    const folders = (this._vscode.workspace.workspaceFolders ?? []).map(({ uri }) => this._pathOf(uri));
    const { appName } = this._vscode.env;
    return {
      editor: appName === 'Visual Studio Code' ? 'VS Code' : appName,
      folders: folders.filter(/** @type {(path: string | null) => path is string} */ ((path) => path !== null)),
    };
  }

  _foldersChanged() {
    if (!this._link.isConnected) return this._start();
    this._link.introduce();
    this._outdated();
  }

  /** @param {boolean} isConnected */
  _connected(isConnected) {
    this._isLost = !isConnected;
    this._showMessage();
    if (isConnected) this._outdated();
  }

  /** @param {import('vscode').Uri} uri */
  _saved(uri) {
    const path = this._pathOf(uri);
    if (path !== null && this._files.has(path)) this._outdated();
  }

  /** Reads the reviews, which may have changed. Several calls in a row cause one more read, after the current one. */
  _outdated() {
    if (this._isStale || !this._link.isConnected) return;
    this._isStale = true;
    void this._inTurn(() => this._follow());
  }

  /** @param {() => Promise<unknown>} work */
  _inTurn(work) {
    this._turn = this._turn.then(work).catch((error) => this._failed(error));
    return this._turn;
  }

  /** @param {unknown} error */
  _failed(error) {
    this._around.log(`the changes made by runs: ${error instanceof Error ? error.message : error}`);
    if (!(error instanceof Refused))
      this._warn('an error occurred, and the list of changes may be outdated. The Drawbridge output has the reason.');
  }

  async _follow() {
    this._isStale = false;
    const changes = this._deciders;
    this._deciders = new Map();
    const { projects } = await this._link.request({ type: 'review_list' });
    const found = [];
    const unread = [];
    for (const project of projects) {
      try {
        const answer = await this._link.request({ type: 'review_get', project });
        found.push(placed(answer));
        // The server sends a notice about an interrupted decision only once.
        if (answer.notice) this._warn(harmless(answer.notice));
      } catch (error) {
        if (!this._link.isConnected || !(error instanceof Refused)) throw error;
        const { code, directory, message } = error;
        if (code === 'PROJECT_NOT_FOUND') continue; // the session was removed in the meantime
        this._around.log(`the review of ${directory || project} is not shown: ${message}`);
        unread.push(harmless(`${path.basename(directory) || 'a directory'}: ${message}`));
      }
    }
    const more = unread.length - MOST_UNREAD;
    this._unread = unread.slice(0, MOST_UNREAD);
    if (more > 0)
      this._unread.push(`${counted(more, 'more review')} can't be shown. The Drawbridge output has the reasons.`);
    const before = this._reviews;
    const known = model.keysOf(before);
    for (const one of found) {
      const isFirst = !this._visited.has(one.directory);
      const isExtended = [...model.keysOf([one])].some((key) => !known.has(key));
      // If nobody has decided, a run has probably ended, which the server does not report to editors.
      const isAfterRun = isExtended && changes.get(one.project)?.has('');
      if (isFirst || isAfterRun) await this._begin(one);
    }
    this._set(found);
    const left = model.keysOf(found);
    const deciders = new Set([...changes.values()].flatMap((names) => [...names]));
    deciders.delete(this._about().editor); // a decision in this window already has its message
    const [name] = deciders;
    if (deciders.size === 1 && name && [...known].some((key) => !left.has(key))) {
      this._say(`${harmless(name)} made decisions in this review.`);
    }
  }

  /** @param {Placed[]} reviews */
  _set(reviews) {
    this._reviews = reviews;
    this._draw();
  }

  /** Whether the list shows only the new changes. */
  get _hidesOthers() {
    return this._visits.onlyNew && this._visits.news(this._reviews).size > 0;
  }

  /** Shows the reviews in the list, and in the diffs that are open. */
  _draw() {
    const reviews = this._reviews;
    const [news, hides] = [this._visits.news(reviews), this._hidesOthers];
    const marked = hides ? /** @type {typeof news} */ (new Set()) : news;
    this._shown = hides ? model.only(reviews, news) : reviews;
    this._texts.changed();
    this._seen.soon();
    this._showMessage();
    this._view.description = model.summary(this._shown, marked.size);
    void this._vscode.commands.executeCommand('setContext', HAS_NEW, news.size > 0);
    void this._vscode.commands.executeCommand('setContext', ONLY_NEW, this._visits.onlyNew);
    const fingerprint = model.fingerprint(this._shown, marked);
    if (fingerprint === this._fingerprint) return; // while VS Code reads a list again, its entries can't be decided on
    this._fingerprint = fingerprint;
    this._nodes = model.tree(this._shown, marked);
    const files = this._nodes.flatMap((node) => (node.kind === 'directory' ? node.children : [node]));
    this._files = new Map(files.map((node) => [this._uri(node.path).fsPath, node]));
    const count = model.changesIn(reviews);
    this._view.badge = count ? { value: count, tooltip: `${counted(count, 'change')} to review` } : undefined;
    this._listChanged.fire(undefined);
    void this._vscode.commands.executeCommand('setContext', HAS_CHANGES, count > 0);
  }

  _showMessage() {
    const lines = [...this._unread, ...model.missing(this._reviews), this._filterWords()].filter(Boolean);
    this._view.message = this._isLost ? DISCONNECTED : lines.join('\n') || undefined;
  }

  /** The effect of the filter in words, if the user wants to see only what is new and there is something to decide. */
  _filterWords() {
    const [reviews, all] = [this._reviews, model.changesIn(this._reviews)];
    if (!this._visits.onlyNew || !all) return undefined;
    if (!this._hidesOthers) return allWords(this._visits.hasNew(reviews));
    return onlyNewWords(this._visits.news(reviews).size, all);
  }

  // The methods for new changes and visits.

  /** The user has opened the list, so a visit begins, unless some changes are hidden. */
  _opened() {
    void this._inTurn(async () => {
      for (const one of this._reviews) await (this._hidesOthers ? this._remember(one) : this._begin(one));
      this._draw();
    });
  }

  /**
   * Begins a visit. What the user has seen in other programs on this machine counts as seen, too.
   *
   * @param {Placed} placed
   */
  async _begin(placed) {
    await this._remember(placed);
    this._visited.add(placed.directory);
    this._visits.begin(placed.directory);
  }

  /**
   * Sends what the user has seen of the review to the server, receives what was seen elsewhere, and shows the notice
   * about the directory if the user has not seen it.
   *
   * @param {Placed} placed
   */
  async _remember(placed) {
    const { project, directory, review } = placed;
    const mayNote = this._link.isConnected && this._view.visible && !this._noticed.has(directory);
    const notice = Boolean(review.notice) && mayNote;
    const ids = hunksOf(placed).map(({ id }) => id);
    if (!ids.length && !notice) return;
    let isNew = notice;
    if (this._link.remembers) {
      const about = { project, hunks: this._visits.seenIn(placed), review: ids, notice };
      const answer = await this._link.request({ type: 'review_seen', ...about });
      this._visits.saw(directory, answer.hunks);
      isNew = answer.notice;
    }
    if (notice) this._noticed.add(directory);
    const name = harmless(path.basename(directory)).replaceAll('](', '] (');
    if (isNew) this._vscode.window.showInformationMessage(`Drawbridge: ${name}: ${review.notice}`);
  }

  /**
   * @param {string} project
   * @param {string[]} hunks
   */
  _saw(project, hunks) {
    const find = () => this._reviews.find((one) => one.project === project);
    const found = find();
    if (!found || !this._visits.saw(found.directory, hunks) || !this._link.isConnected) return;
    void this._inTurn(async () => {
      const now = find();
      if (now) await this._remember(now);
    });
  }

  /** @param {readonly Node[]} nodes */
  _selected(nodes) {
    for (const node of nodes) this._saw(node.placed.project, model.onlyListed(node));
  }

  /** @param {import('vscode').Uri} original */
  _diffOf(original) {
    const about = this._texts.about(original);
    if (!about) return null;
    const [project, name] = about;
    const file = this._fileOf(project, name)?.file;
    return file ? { project, file } : null;
  }

  /** @param {boolean} onlyNew */
  _showOnlyNew(onlyNew) {
    this._visits.showOnlyNew(onlyNew);
    this._draw();
  }

  // The methods that draw the list.

  /**
   * @param {Node} node
   * @returns {import('vscode').TreeItem}
   */
  _item(node) {
    const { ThemeIcon, TreeItem, TreeItemCollapsibleState: State } = this._vscode;
    const item = new TreeItem(
      node.label,
      node.children.length ? (node.isOpen ? State.Expanded : State.Collapsed) : State.None,
    );
    item.id = node.id;
    item.description = node.isNew ? `● ${node.description}` : node.description;
    item.tooltip = node.tooltip;
    item.contextValue = node.kind;
    if (node.kind === 'file') {
      item.resourceUri = this._uri(node.path);
      item.iconPath = ThemeIcon.File;
    } else {
      item.iconPath = new ThemeIcon(node.icon, this._color(node.icon));
    }
    if (node.kind !== 'directory') {
      item.command = { command: 'drawbridge.openChange', title: 'Open Change', arguments: [node] };
    }
    const spoken = { directory: '', file: 'file, ', hunk: 'change, ' }[node.kind];
    const mark = node.isNew ? `${NEW}, ` : '';
    item.accessibilityInformation = { label: `${node.label}, ${spoken}${mark}${node.description}` };
    return item;
  }

  /** @param {string} icon */
  _color(icon) {
    const kind = { 'diff-added': 'added', 'diff-removed': 'deleted', 'diff-modified': 'modified' }[icon];
    return kind ? new this._vscode.ThemeColor(`gitDecoration.${kind}ResourceForeground`) : undefined;
  }

  /**
   * The file's URI in this window, whose folder may be a link.
   *
   * @param {string} name absolute and canonical
   */
  _uri(name) {
    for (const folder of this._about().folders) {
      const inside = path.relative(canonical(folder), name);
      if (inside && !inside.startsWith('..')) return this._vscode.Uri.file(path.join(folder, inside));
    }
    return this._vscode.Uri.file(name);
  }

  async _show() {
    const { isTrusted, workspaceFolders } = this._vscode.workspace;
    if (isTrusted && workspaceFolders?.length) {
      await this._link.arrived();
      await this._turn;
    }
    if (this._reviews.some(({ review }) => review.files.length)) {
      await this._vscode.commands.executeCommand(`${VIEW}.focus`);
    } else {
      this._vscode.window.showInformationMessage(this._whyNone());
    }
  }

  _whyNone() {
    const { isTrusted, workspaceFolders } = this._vscode.workspace;
    if (!isTrusted) return 'Drawbridge: changes are not shown in Restricted Mode. Trust this folder first.';
    if (!workspaceFolders?.length) return 'Drawbridge: this window has no folder, so there is nothing to review.';
    if (!this._link.isConnected) return `Drawbridge: ${this._link.problem}`;
    return `Drawbridge: ${this._unread.join(' ') || `${NOTHING} in this window.`}`;
  }

  /** @param {Node} node */
  async _open({ file, hunk, path: name, placed: { project } }) {
    if (!file) return;
    const { commands, Range } = this._vscode;
    const uri = this._uri(name);
    const found = model.sides(file);
    if (!found) {
      if (file.change === 'deleted') this._say(words(file, file.hunks[0] ?? null));
      else await commands.executeCommand('vscode.open', uri, { preserveFocus: true, preview: true });
      return;
    }
    const row = model.rowOf(
      hunk ?? file.hunks.find(({ kind }) => kind === 'lines' || kind === 'file') ?? file.hunks[0],
    );
    const left = this._texts.uri(project, file.path, found.left === 'text' ? 'removed' : 'before', uri.path);
    const right = found.right === 'text' ? this._texts.uri(project, file.path, 'added', uri.path) : uri;
    const title = `${harmless(path.basename(name))} (${file.change === 'deleted' ? 'Deleted, Review' : 'Review'})`;
    const options = { preserveFocus: true, preview: true, selection: new Range(row, 0, row, 0) };
    await commands.executeCommand('vscode.diff', left, right, title, options);
  }

  // The methods for decisions.

  /**
   * @param {Decision} decision
   * @param {Node | undefined} node
   * @param {boolean} isHunk
   */
  async _decide(decision, node, isHunk) {
    if (!node?.file) return this._warn(MOVED);
    const {
      file,
      placed: { project, review },
    } = node;
    const hunk = isHunk ? node.hunk : null;
    if (!hunk && this._isCut(file, project)) return this._warn(OTHERS_HIDDEN);
    if (decision === 'undo' && (await this._around.isModified(node.path))) return this._warn(unsaved(node));
    const about = hunk ? { hunk: hunk.id } : { file: file.path, version: review.version };
    const count = hunk ? 1 : file.hunks.length || 1;
    const name = harmless(path.basename(node.path));
    const done = `${decision === 'keep' ? 'Kept' : 'Undone'}: ${counted(count, 'change')} in ${name}.`;
    await this._sendInTurn({ project, decision, ...about }, done);
  }

  /**
   * Whether some of the file's changes are hidden.
   *
   * @param {import('./review_words').ReviewedFile} file as it is listed
   * @param {string} project
   */
  _isCut(file, project) {
    return (this._wholeFile(file, project)?.hunks.length ?? 0) > file.hunks.length;
  }

  /**
   * The file with all its changes, also those that are hidden.
   *
   * @param {import('./review_words').ReviewedFile} file as it is listed
   * @param {string} project
   */
  _wholeFile(file, project) {
    const found = this._reviews.find((one) => one.project === project);
    return found?.review.files.find(({ path }) => path === file.path);
  }

  async _keepAll() {
    if (this._hidesOthers) return this._warn(OTHERS_HIDDEN);
    const reviews = this._reviews.filter(({ review }) => review.files.length);
    if (!reviews.length) return this._show();
    const { question, detail } = model.keepAllQuestion(reviews);
    const answer = await this._vscode.window.showInformationMessage(question, { modal: true, detail }, 'Keep All');
    if (answer !== 'Keep All') return;
    for (const one of reviews) {
      const about = { project: one.project, all: true, version: one.review.version };
      const done = `Kept: ${counted(model.changesIn([one]), 'change')}.`;
      if (!(await this._sendInTurn({ decision: 'keep', ...about }, done))) return;
    }
  }

  /**
   * Sends a decision after the requests that are already under way, and shows progress from now on. If the server is
   * restarted in the meantime, waits for it.
   *
   * @param {Parameters<Changes['_send']>[0]} about
   * @param {string} done
   */
  _sendInTurn(about, done) {
    const { isConnected } = this._link;
    const send = () =>
      this._inTurn(async () => {
        if (isConnected) await this._link.returned();
        return await this._send(about, done);
      });
    return this._vscode.window.withProgress({ location: { viewId: VIEW } }, send);
  }

  /**
   * @param {{project: string, decision: Decision, hunk?: string, file?: string, all?: boolean, version?: string}} about
   * @param {string} done
   * @returns {Promise<boolean>} whether the decision was carried out, or false if the server refused it
   */
  async _send(about, done) {
    try {
      const answer = placed(await this._link.decide({ type: 'review_decide', ...about }));
      this._set(this._reviews.map((one) => (one.project === answer.project ? answer : one)));
      const left = model.changesIn(this._reviews);
      this._say(`${done} ${left ? `${counted(left, 'change')} left.` : 'Nothing is left to review.'}`);
      return true;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this._warn(harmless(refusedWords(error.code, error.details, error.message, 'hunk' in about)));
      this._outdated();
      return false;
    }
  }

  /**
   * @param {Decision} decision
   * @param {boolean} isHunk whether the decision applies to one change instead of all changes in the file
   */
  async _decideAtCursor(decision, isHunk) {
    const editor = this._vscode.window.activeTextEditor;
    const node = editor && this._files.get(this._pathOf(editor.document.uri) ?? '');
    if (!editor || !node?.file) return this._warn(this._noneHere(isHunk));
    if (!isHunk || !node.children.length) return this._decide(decision, node, false);
    if (editor.document.isDirty) return this._warn(unsaved(node)); // its lines differ from the lines in the review
    const whole = this._wholeFile(node.file, node.placed.project);
    if (!whole || !model.isShownIn(editor.document.getText(), whole)) {
      this._outdated();
      return this._warn(`${harmless(path.basename(node.path))} has changed since the list was read. Try again.`);
    }
    const hunk = model.hunkAt(node.file, editor.selection.active.line);
    const found = node.children.find((child) => child.hunk === hunk);
    return found ? this._decide(decision, found, true) : this._warn(this._noneHere(true));
  }

  /** @param {boolean} isHunk whether the command is about the change at the cursor instead of the whole file */
  _noneHere(isHunk) {
    const where = isHunk ? 'at the cursor' : 'in this file';
    if (this._hidesOthers) return `only the changes ${NEW} are shown, and none of them is ${where}.`;
    return `there is nothing to review ${where}. The Drawbridge: Changes view lists all changes.`;
  }

  /**
   * @param {string} project
   * @param {string} name
   */
  _fileOf(project, name) {
    const found = this._shown.find((one) => one.project === project);
    const file = found?.review.files.find((one) => one.path === name);
    return found && { path: path.join(found.directory, name), version: found.review.version, file };
  }

  /** @param {string} text */
  _say(text) {
    this._vscode.window.setStatusBarMessage(`$(check) ${text.replaceAll('$(', '$ (')}`, SHOWN);
  }

  /** @param {string} text a file's name in it must not become a link */
  _warn(text) {
    this._vscode.window.showWarningMessage(`Drawbridge: ${text.replaceAll('](', '] (')}`);
  }
}

/**
 * @param {any} answer from the server
 * @returns {Placed}
 */
function placed({ project, directory, review }) {
  return { project, directory, review };
}

/** @param {Node} node */
function unsaved(node) {
  const name = harmless(path.basename(node.path));
  return `${name} has unsaved changes here. Save or discard them first.`;
}

/** @param {string} folder */
function canonical(folder) {
  try {
    return fs.realpathSync(folder);
  } catch {
    return folder;
  }
}

module.exports = { Changes };
