// Lists the faults of the layout of a page, as texts.
(() => {
  const faults = []
  const slack = 1 // pixels that a box may leave another one by, for letters that are smoothed
  const quote = (text) => `“${text.length > 40 ? text.slice(0, 40) + '…' : text}”`
  const name = (e) => e.localName + (e.id ? '#' + e.id : '') + (e.getAttribute('class') ? '.' + e.getAttribute('class') : '')

  // The boxes of all visible texts. A text of several lines has several boxes.
  const boxes = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const range = document.createRange()
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement, text = node.data.trim()
    if (!text || parent.closest('.hidden, .skip, script, noscript, option') || !parent.checkVisibility()) continue
    range.selectNodeContents(node)
    if (parent.closest('.badge, button, thead')) {
      for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
        range.setStart(node, index)
        range.setEnd(node, index + word.length)
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) faults.push(`the word ${quote(word)} is broken`)
      }
      range.selectNodeContents(node)
    }
    for (const { left, right, top, bottom } of range.getClientRects()) if (right > left) boxes.push({ node, parent, text, left, right, top, bottom })
  }
  boxes.sort((a, b) => a.top - b.top)

  // The boxes that bound the texts of an element, and whether they cut off what leaves them.
  const bounds = new Map([[null, []]])
  const boundsOf = (e) => {
    if (bounds.has(e)) return bounds.get(e)
    const cuts = !e.matches('body, html') && getComputedStyle(e).overflow !== 'visible'
    const all = boundsOf(e.parentElement)
    bounds.set(e, cuts || e.matches('td, th, li, section, header, footer, button, body') ? [...all, { e, cuts, box: e.getBoundingClientRect() }] : all)
    return bounds.get(e)
  }

  for (const [i, a] of boxes.entries()) {
    for (let j = i + 1; j < boxes.length && boxes[j].top < a.bottom - slack; j++) {
      const b = boxes[j]
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left), y = Math.min(a.bottom, b.bottom) - b.top
      if (a.node !== b.node && x > slack && y > slack) faults.push(`${quote(a.text)} overlaps ${quote(b.text)}`)
    }
    for (const { e, cuts, box } of boundsOf(a.parent)) {
      const beside = a.left < box.left - slack || a.right > box.right + slack, beyond = a.top < box.top - slack || a.bottom > box.bottom + slack
      if (cuts && (beside || beyond)) faults.push(`${quote(a.text)} is cut off by ${name(e)}`)
      else if (beside) faults.push(`${quote(a.text)} leaves ${name(e)}`)
    }
  }

  for (const line of document.querySelectorAll('.graph .line')) {
    const at = line.getScreenCTM()
    const [from, to] = [new DOMPoint(line.x1.baseVal.value, line.y1.baseVal.value), new DOMPoint(line.x2.baseVal.value, line.y2.baseVal.value)].map((p) => p.matrixTransform(at))
    const steps = Math.ceil(Math.hypot(to.x - from.x, to.y - from.y))
    for (const { text, ...box } of boxes.filter(({ parent }) => parent.closest('.labels'))) {
      for (let i = 0; i <= steps; i++) {
        const x = from.x + ((to.x - from.x) * i) / steps, y = from.y + ((to.y - from.y) * i) / steps
        if (x > box.left + slack && x < box.right - slack && y > box.top + slack && y < box.bottom - slack) {
          faults.push(`${quote(text)} is crossed by a line`)
          break
        }
      }
    }
  }

  for (const e of document.querySelectorAll('html, body *')) {
    if (e.scrollWidth <= e.clientWidth + slack || e.matches('.hidden, input, svg, svg *') || !e.checkVisibility()) continue
    if (e === document.documentElement || getComputedStyle(e).overflowX !== 'visible') faults.push(`${name(e)} scrolls sideways: ${e.scrollWidth} of ${e.clientWidth} pixels`)
  }
  return [...new Set(faults)]
})()
