-- The commands. Each loads what it needs when it is used, so startup costs nothing but these definitions.
if vim.g.loaded_drawbridge then
  return
end
vim.g.loaded_drawbridge = true

if vim.fn.has('nvim-0.7') == 0 then
  return
end

local function command(name, method, description)
  vim.api.nvim_create_user_command('Drawbridge' .. name, function()
    require('drawbridge')[method]()
  end, { desc = description })
end

command('', 'show_status', 'Show the status, as :DrawbridgeStatus does')
command('Install', 'install', 'Install the bridge (asks first)')
command('Start', 'start', 'Start the bridge between this Neovim and coding agents')
command('Stop', 'stop', 'Stop the bridge')
command('Restart', 'restart', 'Restart the bridge with the same port and token')
command('Status', 'show_status', 'Show where the bridge listens and which agents are connected')
command('Log', 'log', 'Show the last log lines of the bridge and the plugin')
command('Reject', 'reject', 'Reject the proposal')
command('RejectHunk', 'reject_hunk', 'Revert the hunk under the cursor')
command('Review', 'review', 'Show the proposal that has waited longest, or go to one that is shown')
command('Keep', 'keep', 'Keep the change at the cursor')
command('Undo', 'undo', 'Undo the change at the cursor')
command('KeepFile', 'keep_file', 'Keep all changes to the file')
command('UndoFile', 'undo_file', 'Undo all changes to the file')
command('KeepAll', 'keep_all', 'Keep all changes in the review (asks first)')
command('Resolve', 'resolve', 'Resolve the comment at the cursor, or reopen it')

vim.api.nvim_create_user_command('DrawbridgeAccept', function(given)
  require('drawbridge').accept(given.bang)
end, { bang = true, desc = 'Accept the proposal as shown; with !, even if not all of it was shown' })

vim.api.nvim_create_user_command('DrawbridgeChanges', function(given)
  require('drawbridge').changes(given.bang)
end, { bang = true, desc = 'List and mark the undecided changes made by runs; with !, only those that are new' })

vim.api.nvim_create_user_command('DrawbridgeSend', function(given)
  if given.range == 0 then
    require('drawbridge').send()
  else
    require('drawbridge').send(given.line1, given.line2)
  end
end, { range = true, desc = "Mention this file, or the lines of the range, in Claude Code's prompt" })

vim.api.nvim_create_user_command(
  'DrawbridgeComment',
  function(given)
    if given.bang then
      require('drawbridge').remove_comment()
    else
      require('drawbridge').comment(given.args, given.line1, given.line2)
    end
  end,
  { range = true, bang = true, nargs = '*', desc = 'Comment on the line or the range; with !, remove the draft here' }
)

vim.api.nvim_create_user_command('DrawbridgeSuggest', function(given)
  require('drawbridge').suggest(given.args, given.line1, given.line2)
end, { range = true, nargs = '*', desc = 'Suggest other text to the agent for the line or the range' })

vim.api.nvim_create_user_command('DrawbridgeSendComments', function(given)
  require('drawbridge').send_comments(given.args)
end, { nargs = '*', desc = 'Send all drafts to the agent' })

local function terminal_command(name, agent, description)
  vim.api.nvim_create_user_command('Drawbridge' .. name, function(given)
    require('drawbridge')[agent](require('drawbridge.cli').split(given.args))
  end, {
    nargs = '*',
    complete = function(...)
      return require('drawbridge.cli').complete(agent, ...)
    end,
    desc = description,
  })
end

terminal_command('Claude', 'claude', 'Run Claude Code in a terminal, connected to this Neovim')
terminal_command('Gemini', 'gemini', 'Run Gemini CLI in a terminal, connected to this Neovim')
