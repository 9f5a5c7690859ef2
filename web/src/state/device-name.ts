// The default name of a device. Pure.

/** "iPhone", "iPad", "Android phone", "Firefox on Linux". @param touches how many touch points the screen supports */
export function deviceName(agent: string, touches = 0): string {
  if (/iPhone|iPod/.test(agent)) return 'iPhone';
  // Safari on an iPad identifies itself as a Mac, but no Mac has a touch screen.
  if (/iPad/.test(agent) || (/Macintosh/.test(agent) && touches > 1)) return 'iPad';
  if (/Android/.test(agent)) return /Mobile/.test(agent) ? 'Android phone' : 'Android tablet';
  const browser = BROWSERS.find(([pattern]) => pattern.test(agent))?.[1] ?? 'Browser';
  const system = /Mac/.test(agent)
    ? 'Mac'
    : /Windows/.test(agent)
      ? 'Windows'
      : /CrOS/.test(agent)
        ? 'ChromeOS'
        : 'Linux';
  return `${browser} on ${system}`;
}

const BROWSERS: [RegExp, string][] = [
  [/Firefox/, 'Firefox'],
  [/Edg\//, 'Edge'],
  [/Chrome/, 'Chrome'],
  [/Safari/, 'Safari'],
];
