"""The journal's transitions as Lua for Redis: each is one step, on the disk before it answers, and safe to send twice.

A call is queued → taken (a worker has it) → running (its effect may have begun) → final. Where its worker is gone while
it is running it is uncertain: verified by sensors (verifying) where somebody can, else final as outcome_unknown.

Keys, after the namespace P: call:ID hash · open zset of calls not final by deadline · ready, verify lists ·
mine:WORKER set · agents hash · task:TASK hash · calls:TASK set · tasks zset by deadline · trace:TASK stream · clients
hash of calls not final · edge:SOURCE>SKILL hash, its circuit breaker · count hash. Channels: bell wakes workers, done
tells who waits.
"""

from __future__ import annotations

COMMON = """
local P = ARGV[1]
local NOW = ARGV[2]
local WALL = ARGV[3]
local KEEP = 604800
local function ckey(id) return P .. 'call:' .. id end
local function trace(task, event, id, who, detail)
  redis.call('XADD', P .. 'trace:' .. task, 'MAXLEN', '~', 20000, '*',
    'event', event, 'call', id, 'who', who or '', 'detail', detail or '', 'stamp_ns', WALL, 'steady_ns', NOW)
end
local function bell() redis.call('PUBLISH', P .. 'bell', '1') end
local function edge_result(c, id, status)
  local key = P .. 'edge:' .. c.source .. '>' .. c.skill
  if status == 'cancelled' then
    if redis.call('HGET', key, 'trial') == id then redis.call('HDEL', key, 'trial') end
    return
  end
  if status == 'done' then
    redis.call('DEL', key)
    return
  end
  local failures = redis.call('HINCRBY', key, 'failures', 1)
  if failures >= tonumber(c.edge_max) or redis.call('HGET', key, 'trial') == id then
    redis.call('HSET', key, 'opened_ns', NOW)
    redis.call('HDEL', key, 'trial')
    trace(c.task, 'edge_opened', id, '', c.source .. '>' .. c.skill)
  end
end
local function call_of(id)
  local flat = redis.call('HGETALL', ckey(id))
  if #flat == 0 then return nil end
  local c = {}
  for i = 1, #flat, 2 do c[flat[i]] = flat[i + 1] end
  return c
end
local function final(id, c, status, outcome, who)
  redis.call('HSET', ckey(id), 'state', status, 'outcome', outcome, 'ended_ns', NOW, 'ended_wall_ns', WALL)
  redis.call('EXPIRE', ckey(id), KEEP)
  redis.call('ZREM', P .. 'open', id)
  if c.worker then redis.call('SREM', P .. 'mine:' .. c.worker, id) end
  redis.call('HINCRBY', P .. 'clients', c.source, -1)
  redis.call('HINCRBY', P .. 'count', status, 1)
  edge_result(c, id, status)
  trace(c.task, status, id, who, outcome)
  redis.call('PUBLISH', P .. 'done', id)
end
local function outcome(id, status, failure)
  return cjson.encode({call_id = id, status = status, failure = failure, facts = {}})
end
local function over(status)
  return status == 'done' or status == 'failed' or status == 'cancelled' or status == 'timed_out'
    or status == 'outcome_unknown'
end
local function uncertain(id, c, fenced, why)
  if c.worker then redis.call('SREM', P .. 'mine:' .. c.worker, id) end
  redis.call('HSET', ckey(id), 'state', 'uncertain', 'fenced', fenced, 'why', why)
  redis.call('HDEL', ckey(id), 'worker')
  redis.call('RPUSH', P .. 'verify', id)
  trace(c.task, 'uncertain', id, c.worker, why)
  bell()
end
local function requeue(id, c, why)
  if c.worker then redis.call('SREM', P .. 'mine:' .. c.worker, id) end
  redis.call('HSET', ckey(id), 'state', 'queued')
  redis.call('HDEL', ckey(id), 'worker')
  redis.call('LPUSH', P .. 'ready', id)
  trace(c.task, 'requeued', id, c.worker, why)
  bell()
end
local function lose(worker, fenced, why, forget)
  for _, id in ipairs(redis.call('SMEMBERS', P .. 'mine:' .. worker)) do
    local c = call_of(id)
    if c and c.worker == worker then
      if c.state == 'taken' then requeue(id, c, why)
      elseif c.state == 'running' then uncertain(id, c, fenced, why)
      elseif c.state == 'verifying' then
        redis.call('HSET', ckey(id), 'state', 'uncertain')
        redis.call('HDEL', ckey(id), 'worker')
        redis.call('RPUSH', P .. 'verify', id)
        bell()
      end
    end
  end
  redis.call('DEL', P .. 'mine:' .. worker)
  if forget then redis.call('HDEL', P .. 'agents', worker) end
end
"""

ACCEPT = """
local id, task, skill, spec, source = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local deadline, digest = ARGV[9], ARGV[10]
local queue_max, client_max = tonumber(ARGV[11]), tonumber(ARGV[12])
local edge_max, cool_ns = ARGV[13], tonumber(ARGV[14])
local known = redis.call('HGET', ckey(id), 'digest')
if known then return {known == digest and 'known' or 'conflict', '0'} end
local waiting = redis.call('ZCARD', P .. 'open')
if waiting >= queue_max then return {'full', tostring(waiting)} end
local own = tonumber(redis.call('HGET', P .. 'clients', source) or '0')
if own >= client_max then return {'busy', tostring(own)} end
local until_ns = redis.call('HGET', P .. 'task:' .. task, 'deadline_ns')
if until_ns and tonumber(until_ns) < tonumber(deadline) then deadline = until_ns end
if tonumber(deadline) <= tonumber(NOW) then return {'late', '0'} end
if redis.call('HGET', P .. 'task:' .. task, 'closed') then return {'closed', '0'} end
local edge = P .. 'edge:' .. source .. '>' .. skill
local opened = redis.call('HGET', edge, 'opened_ns')
if opened then
  local left = tonumber(opened) + cool_ns - tonumber(NOW)
  if left > 0 then return {'open', string.format('%.0f', left)} end
  local trial = redis.call('HGET', edge, 'trial')
  if trial and redis.call('ZSCORE', P .. 'open', trial) then return {'open', '1000000000'} end
  redis.call('HSET', edge, 'trial', id)
end
if not until_ns then
  redis.call('HSET', P .. 'task:' .. task, 'opened_ns', NOW, 'opened_wall_ns', WALL, 'source', source)
  redis.call('EXPIRE', P .. 'task:' .. task, KEEP)
end
redis.call('HSET', ckey(id), 'state', 'queued', 'task', task, 'skill', skill, 'spec', spec, 'source', source,
  'deadline_ns', deadline, 'digest', digest, 'accepted_ns', NOW, 'accepted_wall_ns', WALL, 'attempt', '1',
  'edge_max', edge_max)
redis.call('ZADD', P .. 'open', deadline, id)
redis.call('SADD', P .. 'calls:' .. task, id)
redis.call('EXPIRE', P .. 'calls:' .. task, KEEP)
redis.call('HINCRBY', P .. 'clients', source, 1)
redis.call('HINCRBY', P .. 'count', 'accepted', 1)
redis.call('RPUSH', P .. 'ready', id)
trace(task, 'accepted', id, source, spec)
redis.call('EXPIRE', P .. 'trace:' .. task, KEEP)
bell()
return {'accepted', '0'}
"""
"""→ accepted | known | conflict | full n | busy n | late | closed | open ns left."""

POLL = """
local worker, room, beat, verifies = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7] == '1'
local known = {}
for i = 8, #ARGV do known[ARGV[i]] = true end
if beat ~= '' then redis.call('HSET', P .. 'agents', worker, beat) end
local mine, jobs, cancels, kept = redis.call('SMEMBERS', P .. 'mine:' .. worker), {}, {}, {}
local function job(id, c, what) jobs[#jobs + 1] = {what, id, c.attempt, c.task, c.skill, c.spec, c.deadline_ns} end
for _, id in ipairs(mine) do
  local c = call_of(id)
  if c and c.worker == worker then
    kept[#kept + 1] = id
    if not known[id] then job(id, c, c.state == 'verifying' and 'verify' or 'run') end
    if c.cancel then cancels[#cancels + 1] = id end
  end
end
local n = #kept
while verifies and n < room do
  local id = redis.call('LPOP', P .. 'verify')
  if not id then break end
  local c = call_of(id)
  if c and c.state == 'uncertain' then
    redis.call('HSET', ckey(id), 'state', 'verifying', 'worker', worker)
    redis.call('SADD', P .. 'mine:' .. worker, id)
    trace(c.task, 'verifying', id, worker)
    job(id, c, 'verify')
    kept[#kept + 1] = id
    n = n + 1
  end
end
while n < room do
  local id = redis.call('LPOP', P .. 'ready')
  if not id then break end
  local c = call_of(id)
  if c and c.state == 'queued' then
    if tonumber(c.deadline_ns) <= tonumber(NOW) then
      final(id, c, 'timed_out', outcome(id, 'timed_out', 'deadline passed before it was begun'), worker)
    else
      redis.call('HSET', ckey(id), 'state', 'taken', 'worker', worker)
      redis.call('SADD', P .. 'mine:' .. worker, id)
      job(id, c, 'run')
      kept[#kept + 1] = id
      n = n + 1
    end
  end
end
return {jobs, cancels, kept}
"""
"""What a worker is to do. Calls that are this worker's and that it does not name as known come again: nothing is lost
where an answer was. → jobs, calls to cancel, calls that are this worker's (others were taken from it)."""

BEGIN = """
local worker, id, attempt = ARGV[4], ARGV[5], ARGV[6]
local c = call_of(id)
if not c or c.worker ~= worker or c.attempt ~= attempt then return 'lost' end
if c.state == 'running' then return 'go' end
if c.state ~= 'taken' then return 'lost' end
if tonumber(c.deadline_ns) <= tonumber(NOW) then
  final(id, c, 'timed_out', outcome(id, 'timed_out', 'deadline passed before it was begun'), worker)
  return 'late'
end
redis.call('HSET', ckey(id), 'state', 'running', 'begun_ns', NOW)
trace(c.task, 'begun', id, worker, 'attempt ' .. attempt)
return 'go'
"""
"""Right before the executor: from here on the effect may have happened. → go | lost | late."""

FINISH = """
local worker, id, attempt, status, text, verified = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9] == '1'
local c = call_of(id)
if not c then return 'unknown' end
if c.attempt ~= attempt then
  trace(c.task, 'late_outcome', id, worker, text)
  return 'stale'
end
local unsure = c.state == 'uncertain' or c.state == 'verifying' or c.state == 'outcome_unknown'
if c.state == 'running' and c.worker == worker then
  if status == 'outcome_unknown' and verified then
    uncertain(id, c, '1', cjson.decode(text).failure)
  else
    final(id, c, status, text, worker)
  end
  return 'ok'
end
if unsure and status ~= 'outcome_unknown' then
  trace(c.task, 'answered_late', id, worker, text)
  if c.state == 'outcome_unknown' then
    redis.call('HSET', ckey(id), 'state', status, 'outcome', text)
    redis.call('HINCRBY', P .. 'count', 'outcome_unknown', -1)
    redis.call('HINCRBY', P .. 'count', status, 1)
    redis.call('PUBLISH', P .. 'done', id)
  else
    final(id, c, status, text, worker)
  end
  return 'ok'
end
return over(c.state) and 'ok' or 'stale'
"""
"""A worker's outcome. verified: somebody can verify effects, so an unknown outcome is not final yet. A worker that was
thought dead and answers knows best. → ok | stale | unknown."""

VERIFIED = """
local worker, id, attempt, effect, attempts_max, text = ARGV[4], ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
local c = call_of(id)
if not c or c.state ~= 'verifying' or c.worker ~= worker or c.attempt ~= attempt then return 'stale' end
trace(c.task, 'verified', id, worker, effect)
if effect == 'happened' then
  final(id, c, 'done', text, worker)
elseif effect == 'absent' and c.cancel then
  final(id, c, 'cancelled', outcome(id, 'cancelled', 'cancelled; its effect is absent'), worker)
elseif effect == 'absent' and c.fenced == '1' and tonumber(c.attempt) < attempts_max then
  redis.call('HINCRBY', ckey(id), 'attempt', 1)
  requeue(id, c, 'effect is absent')
elseif effect == 'absent' and c.fenced == '1' then
  final(id, c, 'failed', outcome(id, 'failed', c.why .. ', ' .. c.attempt .. ' times; its effect is absent'), worker)
else
  final(id, c, 'outcome_unknown', outcome(id, 'outcome_unknown', c.why), worker)
end
return 'ok'
"""
"""What sensors say about the effect of a call whose worker is gone. It is tried again only where the effect is absent
and nobody can still bring it about (fenced: that worker is known to be dead). → ok | stale."""

CANCEL = """
local id, who = ARGV[4], ARGV[5]
local c = call_of(id)
if not c then return 'unknown' end
if over(c.state) then return c.state end
if c.state == 'queued' or c.state == 'taken' then
  final(id, c, 'cancelled', outcome(id, 'cancelled', 'cancelled before it was begun'), who)
  return 'cancelled'
end
redis.call('HSET', ckey(id), 'cancel', '1')
trace(c.task, 'cancel_asked', id, who)
bell()
return 'cancelling'
"""

LOSE = """
lose(ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1')
return 'ok'
"""
"""A worker is gone: what it had not begun is queued again, what was running is uncertain. forget: it will not come back
under this name."""

SWEEP = """
local late = tonumber(NOW) - tonumber(ARGV[4])
local can_verify = ARGV[5] == '1'
local ended = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'open', '-inf', NOW, 'LIMIT', 0, 500)) do
  local c = call_of(id)
  if not c then redis.call('ZREM', P .. 'open', id)
  elseif c.state == 'queued' or c.state == 'taken' then
    final(id, c, 'timed_out', outcome(id, 'timed_out', 'deadline passed before it was begun'), '')
    ended = ended + 1
  elseif tonumber(c.deadline_ns) <= late then
    local why = c.why or 'no answer within the deadline'
    final(id, c, 'outcome_unknown', outcome(id, 'outcome_unknown', why), c.worker)
    ended = ended + 1
  end
end
if not can_verify then
  while true do
    local id = redis.call('LPOP', P .. 'verify')
    if not id then break end
    local c = call_of(id)
    if c and c.state == 'uncertain' then
      final(id, c, 'outcome_unknown', outcome(id, 'outcome_unknown', c.why), '')
      ended = ended + 1
    end
  end
end
for _, task in ipairs(redis.call('ZRANGEBYSCORE', P .. 'tasks', '-inf', NOW, 'LIMIT', 0, 100)) do
  redis.call('ZREM', P .. 'tasks', task)
  redis.call('HSET', P .. 'task:' .. task, 'closed', 'deadline_missed', 'closed_ns', NOW)
  redis.call('HINCRBY', P .. 'count', 'tasks_missed', 1)
  trace(task, 'deadline_missed', '', '')
  for _, id in ipairs(redis.call('SMEMBERS', P .. 'calls:' .. task)) do
    local state = redis.call('HGET', ckey(id), 'state')
    if state and not over(state) then redis.call('HSET', ckey(id), 'cancel', '1') end
  end
  bell()
end
return ended
"""
"""Deadlines of calls and tasks. grace: how long after its deadline an executor may still answer."""

TASK = """
local task, deadline, source = ARGV[4], ARGV[5], ARGV[6]
local key = P .. 'task:' .. task
if redis.call('EXISTS', key) == 1 then
  return redis.call('HGET', key, 'deadline_ns') and 'known' or 'begun'
end
redis.call('HSET', key, 'opened_ns', NOW, 'opened_wall_ns', WALL, 'deadline_ns', deadline, 'source', source)
redis.call('EXPIRE', key, KEEP)
redis.call('ZADD', P .. 'tasks', deadline, task)
trace(task, 'task_opened', '', source)
redis.call('EXPIRE', P .. 'trace:' .. task, KEEP)
return 'opened'
"""

CLOSE = """
local task, who = ARGV[4], ARGV[5]
local key = P .. 'task:' .. task
if redis.call('EXISTS', key) == 0 then return 'unknown' end
local closed = redis.call('HGET', key, 'closed')
if closed then return closed end
for _, id in ipairs(redis.call('SMEMBERS', P .. 'calls:' .. task)) do
  local state = redis.call('HGET', ckey(id), 'state')
  if state and not over(state) then return 'open_calls' end
end
redis.call('ZREM', P .. 'tasks', task)
redis.call('HSET', key, 'closed', 'in_time', 'closed_ns', NOW)
redis.call('HINCRBY', P .. 'count', 'tasks_in_time', 1)
trace(task, 'task_closed', '', who)
return 'in_time'
"""

BOOT = """
local before = redis.call('GET', P .. 'boot')
redis.call('SET', P .. 'boot', ARGV[4])
if not before or before == ARGV[4] then return 0 end
for _, worker in ipairs(redis.call('HKEYS', P .. 'agents')) do
  lose(worker, '1', 'the machine was started anew', true)
end
local n = 0
for _, id in ipairs(redis.call('ZRANGE', P .. 'open', 0, -1)) do
  local c = call_of(id)
  if c then
    local status = c.state == 'queued' and 'failed' or 'outcome_unknown'
    final(id, c, status, outcome(id, status, 'the machine was started anew'), '')
    n = n + 1
  end
end
redis.call('DEL', P .. 'ready', P .. 'verify')
for _, task in ipairs(redis.call('ZRANGE', P .. 'tasks', 0, -1)) do
  redis.call('HSET', P .. 'task:' .. task, 'closed', 'deadline_missed', 'closed_ns', NOW)
end
redis.call('DEL', P .. 'tasks')
return n
"""
"""Steady deadlines mean nothing after a boot: what was queued fails by name, what had begun is unknown."""
