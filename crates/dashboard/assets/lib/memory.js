// Choices of a person that the browser keeps: theme, keys. Nothing else is kept.

const PREFIX = 'spanscore.';

export function remembered(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** Keeps a choice; null forgets it. */
export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // A browser that keeps nothing forgets the choice with the page.
  }
}
