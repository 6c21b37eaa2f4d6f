import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asked, conditions, kept, link, only, parse, typed, withCondition, without, withValue } from '../../assets/lib/filter.js';

test('an address is read as it was written', () => {
  for (const [page, id, query] of [
    ['runs', '', []],
    ['runs', '5b8a', [['call', '2']]],
    ['evaluators', 'tool_trajectory/refund', [['from', '-7d']]],
    ['runs', '', [['service', '!shop & co'], ['text', '#?/%']]],
    ['evaluators', '../x/<b>', []],
  ]) assert.deepEqual(parse(link(page, id, query)), { page, id, query }, page);
});

test('a broken address is read as far as it goes', () => {
  assert.deepEqual(parse(''), { page: '', id: '', query: [] });
  assert.deepEqual(parse('#/runs/%zz?a=%zz'), { page: 'runs', id: '%zz', query: [['a', '%zz']] });
});

test('conditions are only, not, and neither', () => {
  const query = [['service', 'shop'], ['from', '-1h']];
  assert.deepEqual(withCondition(query, 'service', 'shop', true), [['from', '-1h'], ['service', '!shop']]);
  assert.deepEqual(withCondition(query, 'tool', 'pay'), [...query, ['tool', 'pay']]);
  assert.deepEqual(only(query, 'service', 'bank'), [['from', '-1h'], ['service', 'bank']]);
  assert.deepEqual(without([['service', '!shop']], 'service', 'shop', true), []);
  assert.deepEqual(withValue(query, 'from', null), [['service', 'shop']]);
});

test('a text is searched for as it is', () => {
  assert.deepEqual(conditions([['text', '!a'], ['service', '!a'], ['__proto__', 'x'], ['sort', 'worst']]), [{ field: 'text', value: '!a', not: false }, { field: 'service', value: 'a', not: true }]);
  assert.deepEqual(withCondition([['text', 'a']], 'text', 'b'), [['text', 'b']]);
});

test('what a person types is a condition, or words', () => {
  const check = (text, field, value, not = false) => assert.deepEqual(typed(text), { field, value, not }, text);
  check('service:shop', 'service', 'shop');
  check('-tool:pay', 'tool', 'pay', true);
  check('tool:!pay', 'tool', 'pay', true);
  check('verdict:fail', 'label', 'fail');
  check('user:u-17', 'user_id', 'u-17');
  check('agent="my agent"', 'agent', 'my agent');
  check('refund order', 'text', 'refund order');
  check('http://x', 'text', 'http://x');
  check('constructor:x', 'text', 'constructor:x');
});

test('the API is asked for a day unless the address says another time', () => {
  assert.deepEqual(asked([]), [['from', '-24h']]);
  assert.deepEqual(asked([['from', '']]), []);
  assert.deepEqual(asked([['from', '-7d'], ['sort', 'worst'], ['label', 'fail']]), [['from', '-7d'], ['label', 'fail']]);
  assert.deepEqual(kept([['call', '1'], ['service', 'a']]), [['service', 'a']]);
});
