import assert from 'node:assert/strict';
import { test } from 'node:test';

globalThis.location = { pathname: '/' };
Object.defineProperty(globalThis, 'navigator', { value: {} });
globalThis.document = Object.assign(new EventTarget(), { hidden: false });
globalThis.EventSource = class extends EventTarget {
  static last;

  constructor() {
    super();
    EventSource.last = this;
  }

  close() {}
};
const { open } = await import('../../assets/lib/stream.js');

test('a tab that was hidden is told so once it is shown, whether or not something comes', ({ mock }) => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const batches = [];
  const end = open('/stream', ({ events, wasHidden }) => batches.push([events.length, wasHidden]), () => {});
  const come = () => EventSource.last.dispatchEvent(Object.assign(new Event('trajectory'), { data: '{}' }));
  const turn = (hidden) => {
    document.hidden = hidden;
    document.dispatchEvent(new Event('visibilitychange'));
  };
  for (const [step, expected] of [
    [() => {}, []],
    [come, [[1, false]]],
    [() => turn(true), []],
    [() => turn(false), [[0, true]]],
    [() => {}, []],
    [() => [come(), turn(true)], []],
    [() => turn(false), [[1, true]]],
    [come, [[1, false]]],
  ]) {
    step();
    mock.timers.tick(1000);
    assert.deepEqual(batches.splice(0), expected, `${step}`);
  }
  end();
});
