// Finds the sections that contain all words of the query. The index has an address, a page, a heading and a text for each section.
const query = document.getElementById('site-query');
const limit = 40;

function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [address, page, heading, text] of words.length ? searchIndex : []) {
    const inHeading = heading.toLowerCase(), inPage = page.toLowerCase(), inText = text.toLowerCase();
    let score = 0;
    for (const word of words) {
      const one = (inHeading.includes(word) ? 8 : 0) + (inPage.includes(word) ? 4 : 0) + (inText.includes(word) ? 1 : 0);
      score = one && score >= 0 ? score + one : -1;
    }
    if (words.length > 1 && (inText.includes(words.join(' ')) || inHeading.includes(words.join(' ')))) score += 4;
    if (score > 0) found.push({ score, address, page, heading, text, at: inText.indexOf(words[0]) });
  }
  found.sort((a, b) => b.score - a.score); // stable: the order of the contents among equals
  const results = document.getElementById('site-results');
  results.replaceChildren(...found.slice(0, limit).map(item));
  const more = found.length > limit ? ', the first ' + limit + ' are shown' : '';
  document.getElementById('site-found').textContent = words.length ? found.length + ' sections found' + more : 'Type words to search for.';
}

function item({ address, page, heading, text, at }) {
  const li = document.createElement('li'), a = document.createElement('a'), p = document.createElement('p');
  a.href = address;
  a.textContent = heading === page ? page : page + ': ' + heading;
  const from = Math.max(0, at - 60);
  p.textContent = (from ? '... ' : '') + text.slice(from, from + 200) + (text.length > from + 200 ? ' ...' : '');
  li.append(a, p);
  return li;
}

query.value = new URLSearchParams(location.search).get('q') ?? '';
query.addEventListener('input', search);
search();
