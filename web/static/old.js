// For browsers that can't run the web UI: shows a sentence instead of an empty page. Written in old JavaScript.
function explain() {
  function tell() {
    var place = document.getElementById('app');
    if (!place || document.documentElement.getAttribute('data-started')) return;
    place.textContent = '';
    var text = document.createElement('p');
    text.className = 'outdated';
    text.setAttribute('role', 'alert');
    text.appendChild(
      document.createTextNode(
        'This browser is too old for Drawbridge. Update it, or use a current version of Firefox, Chrome, Edge or Safari.',
      ),
    );
    place.appendChild(text);
  }
  var runsModules = 'noModule' in document.createElement('script');
  var hasColors = 'CSS' in window ? CSS.supports('color', 'light-dark(red, red)') : false;
  var hasSelectors = 'CSS' in window ? CSS.supports('selector(:has(a))') : false;
  var hasObjects = window.WebSocket && window.HTMLDialogElement && Object.hasOwn;
  if (!runsModules || !hasObjects || !hasColors || !hasSelectors) tell();
  // If the browser can't parse a module, this error event is the only sign of it.
  function look(event) {
    if (/\/part-/.test(event.filename || '')) tell();
  }
  window.addEventListener('error', look);
}
explain();
