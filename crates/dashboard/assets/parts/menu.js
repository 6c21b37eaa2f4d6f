// One menu for all values: "only this", "not this", and what else a part offers.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/html.js';

let show = () => {};

/** Opens the menu below an element; items are `{ label, run }`. */
export function openMenu(anchor, title, items) {
  show({ anchor, title, items });
}

export function Menu() {
  const [open, setOpen] = useState(null);
  const box = useRef(null);
  show = setOpen;
  const close = (refocus = true) => {
    if (refocus) open?.anchor.focus();
    setOpen(null);
  };
  useLayoutEffect(() => {
    if (!open) return;
    const at = open.anchor.getBoundingClientRect();
    const { offsetWidth, offsetHeight, style } = box.current;
    style.left = `${Math.max(8, Math.min(at.left, innerWidth - offsetWidth - 8))}px`;
    style.top = `${at.bottom + offsetHeight + 8 > innerHeight ? Math.max(8, at.top - offsetHeight - 4) : at.bottom + 4}px`;
    box.current.querySelector('button').focus();
  }, [open]);
  useEffect(() => {
    if (!open) return undefined;
    const outside = (event) => box.current?.contains(event.target) || close(false);
    const gone = () => close(false);
    addEventListener('pointerdown', outside);
    addEventListener('scroll', gone, { passive: true });
    addEventListener('hashchange', gone);
    return () => {
      removeEventListener('pointerdown', outside);
      removeEventListener('scroll', gone);
      removeEventListener('hashchange', gone);
    };
  }, [open]);
  if (!open) return null;
  const pressed = (event) => {
    const buttons = [...box.current.querySelectorAll('button')];
    const at = buttons.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape' || event.key === 'Tab') close();
    else if (step) buttons[(at + step + buttons.length) % buttons.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="menu" ref=${box} role="menu" aria-label=${open.title} onKeyDown=${pressed}>
    ${open.items.map((item) => html`<button role="menuitem" onClick=${() => { close(); item.run(); }}>${item.label}</button>`)}
  </div>`;
}
