// Binding of htm to Preact, and the hooks that pages use.
import { createElement, Fragment, render } from '../vendor/preact.js';
import htm from '../vendor/htm.js';

export const html = htm.bind(createElement);
export { Fragment, render };
export { useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState } from '../vendor/hooks.js';
