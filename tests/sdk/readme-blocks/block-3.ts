import { Dormouse } from 'dormouse'

const dormouse = new Dormouse()
const once = await dormouse.runOnce('sum(range(10))', { network: { mode: 'none' }, timeoutMs: 10_000 })
console.log(once.text) // 45
