// Theme: that of the system, or the one a person chose.
import { remember, remembered } from './memory.js';

const THEMES = ['system', 'light', 'dark'];

export const theme = () => {
  const chosen = remembered('theme');
  return THEMES.includes(chosen) ? chosen : 'system';
};

/** Sets the theme; `system` forgets the choice. */
export function setTheme(next) {
  remember('theme', next === 'system' ? null : next);
  apply();
}

export const nextTheme = () => THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];

function apply() {
  document.documentElement.dataset.theme = theme();
}

apply();
