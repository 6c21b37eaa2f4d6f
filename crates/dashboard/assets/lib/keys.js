// Keys of one letter: what pages bind, and the switch that turns them off (WCAG 2.1.4).
import { useEffect } from './html.js';
import { remembered, remember } from './memory.js';

/** @type {Map<string, () => void>[]} */
const layers = [];

export const areKeysOn = () => remembered('keys') !== 'off';
export const setKeysOn = (on) => remember('keys', on ? null : 'off');

/** True where letters are typed into something. */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName));
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !areKeysOn()) return;
  if (document.querySelector('dialog[open]')) return;
  if (event.key === 'Enter' && event.target.closest?.('a, button, summary')) return;
  const layer = layers.findLast((it) => it.has(event.key));
  if (!layer) return;
  event.preventDefault();
  layer.get(event.key)();
});

/** Binds keys while a component stands; the innermost wins. */
export function useKeys(bindings) {
  useEffect(() => {
    const layer = new Map(Object.entries(bindings));
    layers.push(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  });
}
